import { setTimeout as delay } from 'node:timers/promises'
import { expect } from 'chai'
import type { Page } from 'playwright-core'
import type { Guest } from '../../proto/gen/berth/agent/v1/guest.js'
import type { MemoryTerminal } from '../support/memory/memory-consoles.js'
import { eventually, waitFor } from '../support/wait.js'
import { settled } from './page-checks.js'
import { PanelLab, type OpenOptions } from './panel-lab.js'
import { TerminalPage } from './terminal-page.js'

/** Tests the terminal of the panel. The test chooses the output of the guests. */
describe('a terminal in the panel', function () {
  let lab: PanelLab
  let guest: Guest

  before(async () => {
    lab = await PanelLab.start()
    await lab.gateway.fleet.work('host-a')
  })
  after(() => lab.close())
  beforeEach(async () => {
    guest = await lab.gateway.fleet.addGuest()
  })
  afterEach(async () => {
    for (const context of lab.browser.contexts()) await context.close()
    lab.expectNoComplaints()
  })

  const guestsTerminal = ({ uuid }: Guest): MemoryTerminal =>
    lab.gateway.fleet.agentOf('host-a').host.consoles.terminals.findLast(({ guestUuid }) => guestUuid === uuid)!

  async function open(options: OpenOptions = {}, path = `/containers/${guest.id}/console`) {
    const page = await lab.logIn(options)
    await TerminalPage.prepare(page.context())
    await page.goto('about:blank')
    await lab.show(page, path)
    return shown(page)
  }

  async function shown(page: Page) {
    const view = new TerminalPage(page)
    await view.state('open')
    return { page, view, terminal: guestsTerminal(guest) }
  }

  it('shows the output of the guest, and sends the input and the size to the guest', async () => {
    const { view, terminal, page } = await open()
    terminal.show('中文 \u{1f600} ready\r\n# ')
    await view.shows(/中文 \u{1f600} ready/u)
    await view.type('ls')
    await page.keyboard.press('Enter')
    await page.keyboard.press('Control+c')
    await waitFor(() => terminal.input === 'ls\r\x03', { what: () => JSON.stringify(terminal.input) })
    const { cols, rows } = await view.size()
    await eventually(() => expect(terminal.sizes.at(-1)).to.equal(`${cols}x${rows}`))
    expect(cols).to.be.above(80)
    await page.setViewportSize({ width: 900, height: 600 })
    await waitFor(async () => (await view.size()).cols < cols, { what: 'a smaller terminal' })
    const smaller = await view.size()
    await waitFor(() => terminal.sizes.at(-1) === `${smaller.cols}x${smaller.rows}`, {
      what: 'the guest knows',
    })
    await lab.picture(page, 'console-wide')
  })

  it('loses the keyboard focus with F6, and gets it back with F6', async () => {
    const { view, terminal, page } = await open()
    await view.type('a')
    await page.keyboard.press('F6')
    await page.waitForFunction('document.activeElement.matches(".console .bar *")')
    await page.keyboard.press('F6')
    await view.type('b')
    await waitFor(() => terminal.input === 'ab', { what: () => JSON.stringify(terminal.input) })
  })

  it('continues after a reload of the page, and shows its earlier content again', async () => {
    const { view, terminal, page } = await open()
    terminal.show('\x1b[6nbefore the reload\r\n# ') // requests the cursor position, which must be answered only once
    await view.shows(/before/)
    await page.reload()
    const again = await shown(page)
    await again.view.shows(/before the reload\n#$/)
    expect(guestsTerminal(guest)).to.equal(terminal)
    await again.view.type('x')
    await waitFor(() => terminal.input === '\x1b[1;1Rx', { what: () => JSON.stringify(terminal.input) })
  })

  it('continues when the user returns from another page of the panel', async () => {
    const { terminal, page } = await open()
    terminal.show('still here')
    await lab.show(page, `/containers/${guest.id}/network`)
    await lab.show(page, `/containers/${guest.id}/console`)
    const again = await shown(page)
    await again.view.shows(/still here/)
    expect(guestsTerminal(guest)).to.equal(terminal)
  })

  it('reconnects automatically after a network failure, and shows all output', async () => {
    const { view, terminal, page } = await open()
    terminal.show('one\r\n')
    await view.shows(/one/)
    await page.context().setOffline(true)
    await view.state('lost')
    await page.getByText('Reconnecting…').first().waitFor()
    terminal.show('two\r\n')
    await page.context().setOffline(false)
    await view.state('open')
    await view.shows(/^one\ntwo$/)
    await view.type('y')
    await waitFor(() => terminal.input === 'y', { what: () => JSON.stringify(terminal.input) })
    lab.complaints.errors.length = 0 // removes errors that the browser logged while it was offline
  })

  it('shows why it ended, and opens a new terminal on request', async () => {
    const { view, terminal, page } = await open({ language: 'zh' })
    terminal.show('bye')
    terminal.exit(0)
    await view.state('ended')
    await page.getByText('终端已退出。').waitFor()
    await page.locator('.over.normal').waitFor()
    await page.getByRole('button', { name: '重新连接' }).click()
    await view.state('open')
    await waitFor(() => guestsTerminal(guest) !== terminal, { what: 'a new terminal' })
    await eventually(async () => expect(await view.text()).to.equal(''))
  })

  it('can be taken over by another window, and the first window then reports the takeover', async () => {
    const { view, page, terminal } = await open()
    const other = await page.context().newPage()
    const resume = await page.evaluate<string>(`Object.entries(sessionStorage)[0].join('\\n')`)
    await other.addInitScript({
      content: `sessionStorage.setItem(...${JSON.stringify(resume.split('\n'))})`,
    })
    await other.goto(page.url())
    await new TerminalPage(other).state('open')
    await view.state('ended')
    await page.getByText('The session continues in another window.').waitFor()
    expect(guestsTerminal(guest)).to.equal(terminal)
    await page.getByRole('button', { name: 'Connect again' }).click()
    await view.state('open')
    expect(guestsTerminal(guest)).to.equal(terminal)
  })

  it('can be opened on a separate page, with the requested console type', async () => {
    const { page } = await open()
    const own = page.context().waitForEvent('page')
    await page.getByRole('link', { name: 'Open in a new tab' }).click()
    const popup = await own
    await new TerminalPage(popup).state('open')
    expect(new URL(popup.url()).pathname).to.equal(`/console/${guest.uuid}`)
    await popup.getByLabel('Console type').selectOption('serial')
    await waitFor(() => guestsTerminal(guest).mode === 'serial', { what: 'the serial console' })
    await new TerminalPage(popup).state('open')
    await popup.waitForURL(/mode=serial/)
    await lab.picture(popup, 'console-full-wide')
  })

  it('is replaced by the login after the session of the user has ended', async () => {
    const { view, page } = await open()
    await page.context().clearCookies()
    await page.reload()
    await page.locator('#username').waitFor()
    expect(await view.page.locator('.console').count()).to.equal(0)
  })

  it('has additional keys on a phone, and fits the screen of the phone', async () => {
    const { view, terminal, page } = await open({ screen: 'phone' })
    for (const name of ['Esc', 'Tab', 'ArrowUp', 'Ctrl']) await page.getByRole('button', { name, exact: true }).click()
    await view.type('cd')
    await page.getByRole('button', { name: 'Alt', exact: true }).click()
    await view.type('b')
    await waitFor(() => terminal.input === '\x1b\t\x1b[A\x03d\x1bb', {
      what: () => JSON.stringify(terminal.input),
    })
    terminal.show('\x1b[?1h') // an editor switches to application cursor keys
    await waitFor(() => page.evaluate<boolean>('window.shownTerminal.modes.applicationCursorKeysMode'), {
      what: 'DECCKM',
    })
    await page.getByRole('button', { name: 'ArrowUp', exact: true }).click()
    await waitFor(() => terminal.input.endsWith('\x1bOA'), { what: () => JSON.stringify(terminal.input) })
    const [scroll = 0, client = 0] = await page.evaluate<number[]>(
      '[document.documentElement.scrollWidth, document.documentElement.clientWidth]',
    )
    expect(scroll).to.be.at.most(client)
    await lab.picture(page, 'console-phone')
  })

  it('provides its output to screen readers if the user enables this option', async () => {
    const { view, terminal, page } = await open()
    await page.getByLabel('More console actions').click()
    await page.getByRole('menuitem', { name: 'Turn on screen reader mode' }).click()
    terminal.show('to be heard\r\n')
    await page.locator('.xterm-accessibility').getByText('to be heard').first().waitFor()
    await page.reload()
    await view.state('open')
    await page.locator('.xterm-accessibility').getByText('to be heard').first().waitFor()
  })

  it('can be searched for a text', async () => {
    const { view, terminal, page } = await open()
    terminal.show('a needle in a haystack\r\n')
    await view.shows(/needle/)
    await page.keyboard.press('Control+Shift+F')
    await page.getByRole('searchbox').fill('needle')
    await page.waitForFunction('window.shownTerminal.getSelection() === "needle"')
    await page.getByRole('searchbox').fill('thread')
    await page.getByText('Text not found').waitFor()
    await page.keyboard.press('Escape')
    await view.type('z')
    await waitFor(() => terminal.input === 'z', { what: 'the keyboard is the guest’s again' })
  })

  it('shows that the guest is stopped, and opens as soon as the guest runs', async () => {
    guest = await lab.gateway.fleet.addGuest({ status: 'stopped' })
    const page = await lab.logIn()
    await TerminalPage.prepare(page.context())
    await page.reload()
    await lab.show(page, `/containers/${guest.id}/console`)
    await page.getByRole('heading', { name: 'The guest is stopped', exact: true }).waitFor()
    await page.locator('.empty').getByRole('button', { name: 'Start' }).click()
    await new TerminalPage(page).state('open')
  })

  describe('of a hostile guest', () => {
    const esc = '\x1b'
    const bel = '\x07'
    /** Calls a method of the clipboard. @returns its result, or undefined if it takes too long */
    const clipboard = (page: Page, call: string): Promise<string | undefined> =>
      Promise.race([page.evaluate<string>(`navigator.clipboard.${call}`), delay(10_000, undefined)])

    it('offers to paste the clipboard in its menu', async () => {
      const { terminal, page } = await open()
      await page.context().grantPermissions(['clipboard-read', 'clipboard-write'])
      await waitFor(() => clipboard(page, 'writeText("pasted text").then(() => "written")'), {
        what: 'the clipboard written',
      })
      await page.getByRole('button', { name: 'More console actions', exact: true }).click()
      await page.getByRole('menuitem', { name: 'Paste', exact: true }).click()
      await waitFor(() => terminal.input.includes('pasted text'), { what: 'the text in the guest' })
    })

    it('continues after hostile output, which does not change the page', async () => {
      const { view, terminal, page } = await open()
      const context = page.context()
      await context.grantPermissions(['clipboard-read', 'clipboard-write'])
      await waitFor(() => clipboard(page, 'writeText("mine").then(() => "written")'), {
        what: 'the clipboard written',
      })
      const title = await page.title()
      const opened: string[] = []
      context.on('page', (other) => opened.push(other.url()))
      page.on('dialog', (dialog) => opened.push(dialog.message()))
      const before = terminal.input
      for (const sequence of [
        `${esc}]0;stolen title${bel}`,
        `${esc}]2;${'x'.repeat(500_000)}${bel}`,
        `${esc}]52;c;${Buffer.from('stolen').toString('base64')}${bel}`,
        `${esc}]52;c;?${bel}`,
        `${esc}]9;notify${bel}${esc}]777;notify;a;b${bel}${bel}`,
        `${esc}]1337;File=name=eA==;inline=1:AAAA${bel}`,
        `${esc}]8;;javascript:document.title=1${esc}\\link${esc}]8;;${esc}\\`,
        `${esc}[3t${esc}[8;1;1t${esc}[21t${esc}[20t${esc}[11t`,
        `${esc}P+q544e${esc}\\${esc}_G;AAAA${esc}\\${esc}^x${esc}\\`,
        `${esc}[?1000h${esc}[?1003h${esc}[?1006h${esc}[?2004h${esc}[?1004h`,
        `${esc}[999999999;999999999H${esc}[999999999b${esc}[999999999L${esc}[2147483648X`,
        `${esc}#8${esc}c${esc}[!p${esc}[?3h${esc}[4h`,
        `<img src=x onerror="document.title=2"><script>document.title=3</script>`,
        Buffer.from([0xff, 0xfe, 0xc0, 0x80, 0xed, 0xa0, 0x80, 0xf5, 0x80, 0x00, 0x9d, 0x9b, 0xe4, 0xb8]),
        `${esc}[0m${esc}c`,
      ])
        terminal.show(sequence)
      terminal.show('x'.repeat(1_048_576)) // text without any line break
      terminal.show(`${esc}]0;never ends ${'y'.repeat(300_000)}`)
      terminal.show(`${esc}\\${esc}c# alive\r\n`)
      await view.shows(/^# alive$/)
      expect(await page.title()).to.equal(title)
      const kept = await waitFor(() => clipboard(page, 'readText()'), { what: 'the clipboard read' })
      expect(kept).to.equal('mine')
      expect(opened).to.deep.equal([])
      // Output of a guest must not make the terminal send arbitrary input, only the usual answers of terminals.
      // eslint-disable-next-line no-control-regex -- the pattern matches escape sequences
      const answers = /\x1b\[[?>]?[\d;]*[A-Za-z]/g
      expect(terminal.input.slice(before.length).replaceAll(answers, '')).to.equal('')
      await view.type('z')
      await waitFor(() => terminal.input.endsWith('z'), {
        what: () => JSON.stringify(terminal.input.slice(-40)),
      })
      expect(await page.locator('body').innerText()).not.to.match(/stolen|onerror/)
    })

    it('stays usable after escape sequences with very many repetitions', async () => {
      const { view, terminal } = await open()
      const finals = Array.from({ length: 63 }, (_, at) => String.fromCharCode(0x40 + at))
      const between = ['', ' ', '!', '"', '#', '$', "'", '*']
      for (const prefix of ['', '?', '>', '='])
        for (const final of finals)
          for (const one of between) terminal.show(`${esc}[5;9Hx${esc}[${prefix}999999999;999999999${one}${final}`)
      terminal.show(`${esc}\\${esc}c# alive\r\n`)
      await view.shows(/^# alive$/)
    })

    it('leaves the page responsive, even with many escape sequences at the same time', async () => {
      const { view, terminal, page } = await open()
      await page.evaluate(
        'let last = performance.now(); window.away = window.turns = 0; ' +
          'setInterval(() => { const now = performance.now(); turns++; away = Math.max(away, now - last); last = now }, 10)',
      )
      const begun = performance.now()
      terminal.show(`${esc}[500S`.repeat(4000))
      terminal.show(`${esc}c# alive\r\n`)
      await view.shows(/^# alive$/)
      const [away = NaN, turns] = await page.evaluate<number[]>('[window.away, window.turns]')
      console.log(`      the page did not react for ${away.toFixed(0)} ms, and ran ${turns} times meanwhile`)
      expect(turns, 'runs of a timer of the page, between pieces of 512 bytes').to.be.at.least(20)
      expect(away, 'ms without a reaction, of all the time that it took').to.be.below((performance.now() - begun) / 2)
    })

    it('asks for a confirmation before it opens links, and opens only web links', async () => {
      const { view, terminal, page } = await open()
      await page.context().route('https://evil.test/**', (route) => route.fulfill({ body: '' }))
      terminal.show(`${esc}]8;;https://evil.test/a${esc}\\my bank${esc}]8;;${esc}\\\r\n`)
      terminal.show(`${esc}]8;;javascript:alert(1)${esc}\\mine${esc}]8;;${esc}\\\r\n`)
      await view.shows(/my bank\nmine/)
      const screen = await page.locator('.xterm-screen').boundingBox()
      const { rows } = await view.size()
      const high = (screen?.height ?? 0) / rows
      const at = (line: number) => [(screen?.x ?? 0) + 20, (screen?.y ?? 0) + high * (line + 0.5)] as const
      const click = async (line: number): Promise<void> => {
        await page.mouse.move(...at(line + 4))
        await page.mouse.move(...at(line), { steps: 5 })
        await page.mouse.click(...at(line))
      }
      const dialog = page.getByRole('dialog')
      /** Clicks the web link. A click has no effect until the terminal has found the link under the mouse. */
      const askAboutWebLink = async (): Promise<void> => {
        const isAsked = () =>
          dialog.waitFor({ timeout: 3000 }).then(
            () => true,
            () => false,
          )
        await waitFor(async () => (await dialog.isVisible()) || (await click(0), isAsked()), { what: 'a question' })
        expect(await dialog.innerText()).to.include('https://evil.test/a')
      }
      await askAboutWebLink()
      expect(await dialog.getByRole('link').getAttribute('rel')).to.equal('noopener noreferrer')
      const asked = page.context().waitForEvent('request', (request) => request.url().includes('evil.test'))
      await dialog.getByRole('link').click()
      const request = await asked
      expect([request.url(), request.headers()['referer']]).to.deep.equal(['https://evil.test/a', undefined])
      await dialog.waitFor({ state: 'detached' })
      for (const other of page.context().pages()) if (other !== page) await other.close()
      lab.forgetComplaints() // this test caused the complaints
      for (let n = 0; n < 3; n++) await click(1)
      await settled(page)
      expect(await dialog.count()).to.equal(0)
      await askAboutWebLink() // clicks still have an effect, and no earlier click has opened another question
    })

    it('shows the end of a flood of random output, and needs limited memory', async () => {
      const { view, terminal, page } = await open()
      const session = await page.context().newCDPSession(page)
      await session.send('Performance.enable')
      let shown = 0
      const junk = Buffer.from(Array.from({ length: 32_768 }, (_, at) => (at * 7919 + (at >> 3)) & 0xff))
      await waitFor(
        () => {
          while (!terminal.paused && shown < 4_000_000) {
            terminal.show(junk)
            shown += junk.length
          }
          return shown >= 4_000_000
        },
        { intervalMs: 2, what: () => `all taken, ${shown}` },
      )
      terminal.show(`${esc}\\${esc}[!p${esc}c# alive\r\n`)
      await view.shows(/^# alive$/)
      const { metrics } = await session.send('Performance.getMetrics')
      expect(metrics.find(({ name }) => name === 'JSHeapUsedSize')?.value).to.be.below(150 * 2 ** 20)
    })
  })
})
