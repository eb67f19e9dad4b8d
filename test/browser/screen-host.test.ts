import { expect } from 'chai'
import type { BrowserContext, Page } from 'playwright-core'
import { patienceMs, waitFor } from '../support/wait.js'
import { kvm } from '../support/guests/guest-kinds.js'
import { HostLab } from './host-lab.js'
import { TerminalPage } from './terminal-page.js'

/** Script that reads the width, the number of colours and a checksum of the canvas that shows the screen. */
const countColors = `(() => {
  const canvas = document.querySelector('.console canvas')
  const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height)
  const seen = new Set()
  let sum = 0
  for (let at = 0; at < data.length; at += 4) {
    const pixel = (data[at] << 16) | (data[at + 1] << 8) | data[at + 2]
    seen.add(pixel)
    sum = (sum * 31 + pixel) >>> 0
  }
  return { colors: seen.size, sum, width: canvas.width }
})()`

interface Picture {
  readonly colors: number
  readonly sum: number
  readonly width: number
}

/** Tests the way from the panel in Chromium to the screen and the serial port of a real virtual machine. */
describe('the screen of a virtual machine in the panel', function () {
  const lab = new HostLab({ name: 'pvn', prefix: '198.18.140', prepare: (pool) => kvm.installImage(pool) })
  let context: BrowserContext
  let id = 0

  before(async () => {
    await lab.start()
    const sizes = { virtualization: 'kvm', ram_mb: 256 }
    id = (await lab.create('vm', sizes)).id
  })
  after(() => lab.close())
  afterEach(async () => {
    for (const one of lab.panel.browser.contexts()) await one.close()
  })

  async function open(screen: 'wide' | 'phone' = 'wide'): Promise<Page> {
    const page = await lab.panel.logIn({ screen })
    context = page.context()
    await TerminalPage.prepare(context)
    await page.goto('about:blank')
    return show(page)
  }

  async function show(page: Page): Promise<Page> {
    await lab.panel.show(page, `/containers/${id}/console`)
    await page.locator('[data-picture=true]').waitFor({ timeout: patienceMs })
    return page
  }

  const pictureOf = (page: Page): Promise<Picture> => page.evaluate<Picture>(countColors)

  const changed = (page: Page, from: Picture, what: string): Promise<unknown> =>
    waitFor(async () => (await pictureOf(page)).sum !== from.sum, {
      intervalMs: 100,
      what,
    })

  async function serialOf(page: Page): Promise<TerminalPage> {
    await page.getByLabel('Console type').selectOption('serial')
    const view = new TerminalPage(page)
    await view.state('open')
    await waitFor(
      async () => {
        await page.keyboard.press('Enter')
        return /# *$/.test(await view.text())
      },
      { intervalMs: 500, what: 'a shell on the serial port' },
    )
    return view
  }

  /** Makes the virtual machine store the first line that is typed on its keyboard. */
  async function keepTyped(page: Page): Promise<void> {
    const serial = await serialOf(page)
    await serial.type('setsid sh -c "exec head -n 1 </dev/tty1 >/tmp/typed" & \n')
    await serial.shows(/typed/)
  }

  it('is shown to two clients at the same time, and fits the screen of a phone', async () => {
    const page = await open()
    await waitFor(async () => (await pictureOf(page)).colors > 1, { what: 'a picture' })
    await lab.panel.picture(page, 'screen-wide')
    const phone = await show(await lab.panel.logIn({ screen: 'phone' }))
    const [scroll = 0, client = 0, width = 0] = await phone.evaluate<number[]>(
      '[document.documentElement.scrollWidth, document.documentElement.clientWidth, document.querySelector(".console canvas").getBoundingClientRect().width]',
    )
    expect(scroll).to.be.at.most(client)
    expect(width).to.be.within(200, 360)
    await lab.panel.picture(phone, 'screen-phone')
    const before = [await pictureOf(page), await pictureOf(phone)] as const
    const other = await context.newPage()
    const serial = await serialOf(await show(other))
    await serial.type('echo hello both > /dev/tty0\n')
    await changed(page, before[0], 'the first sees it')
    await changed(phone, before[1], 'the second sees it')
  })

  it('sends a text as key presses if the keyboard has a key for each character', async () => {
    const page = await open()
    await keepTyped(page)
    await page.getByLabel('Console type').selectOption('vnc')
    await page.locator('[data-picture=true]').waitFor({ timeout: patienceMs })
    await page.getByRole('button', { name: 'Type text' }).click()
    const dialog = page.getByRole('dialog')
    await dialog.getByLabel('Text to type').fill('aB中')
    await dialog.getByText('This keyboard layout has no key for: 中').waitFor()
    await waitFor(() => dialog.getByRole('button', { name: /^Type/ }).isDisabled(), { what: 'it cannot be sent' })
    await dialog.getByLabel('Text to type').fill('aB1!@#~\n')
    await dialog.getByRole('button', { name: 'Type 8 keys' }).click()
    await dialog.waitFor({ state: 'detached', timeout: patienceMs })
    const serial = await serialOf(page)
    await serial.type('cat /tmp/typed\n')
    await serial.shows(/^aB1!@#~$/m)
  })

  it('can restart the virtual machine with Ctrl-Alt-Del', async () => {
    const page = await open()
    const serial = await serialOf(page)
    await serial.type('echo booted; touch /run/this-boot\n')
    await serial.shows(/booted/)
    await page.getByLabel('Console type').selectOption('vnc')
    await page.locator('[data-picture=true]').waitFor({ timeout: patienceMs })
    await page.getByLabel('More console actions').click()
    await page.getByRole('menuitem', { name: 'Send Ctrl-Alt-Del' }).click()
    const again = await serialOf(page)
    await waitFor(
      async () => {
        await again.type('ls /run/this-boot\n')
        return /No such file/.test(await again.text())
      },
      { intervalMs: 1000, what: 'it has booted again' },
    )
  })
})
