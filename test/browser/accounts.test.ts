import { expect } from 'chai'
import jsQR from 'jsqr'
import { generateSync } from 'otplib'
import type { Locator, Page } from 'playwright-core'
import { makeAdmin } from '../support/gateway/browser.js'
import { eventually, waitFor } from '../support/wait.js'
import { failLogin, fillLogin, openLab, type PanelLab } from './panel-lab.js'

/** Script with which the browser decodes the pixels of an image. @param source data URL of the image */
const pixelsScript = `async (source) => {
  const image = new Image()
  image.src = source
  await image.decode()
  const canvas = new OffscreenCanvas(image.width, image.height)
  const context = canvas.getContext('2d')
  context.drawImage(image, 0, 0)
  const { data, width, height } = context.getImageData(0, 0, image.width, image.height)
  return { data: Array.from(data), width, height }
}`

/** The types of jsQR describe another module format than the one that Node.js imports. */
const readCode = jsQR as unknown as typeof jsQR.default

/** Reads the text of a QR code from its picture, as a phone does. */
async function readQr(page: Page, picture: Locator): Promise<string> {
  const source = `data:image/png;base64,${(await picture.screenshot()).toString('base64')}`
  const { data, width, height } = await page.evaluate<{ data: number[]; width: number; height: number }>(
    `(${pixelsScript})(${JSON.stringify(source)})`,
  )
  return readCode(Uint8ClampedArray.from(data), width, height)?.data ?? ''
}

describe('users of the panel', () => {
  let lab: PanelLab
  before(async function () {
    lab = await openLab()
  })

  const codeOf = (secret: string, steps = 0): string =>
    generateSync({ secret, epoch: Math.floor(Date.now() / 1000) + 30 * steps })

  it('can set up a second factor with its QR code, and use each code only once', async function () {
    const page = await lab.logIn({ username: 'careful' })
    await lab.show(page, '/account')
    await page.getByRole('button', { name: 'Turn on', exact: true }).click()
    const uri = await readQr(page, page.locator('svg.qr'))
    expect(uri).to.match(/^otpauth:\/\/totp\/Berth:careful\?/)
    const secret = new URL(uri).searchParams.get('secret') ?? ''
    await lab.picture(page, 'two-factor-wide')
    await page.locator('#totp-code').fill(codeOf(secret))
    await page.keyboard.press('Enter')
    const codes = (await page.locator('[data-secret]').innerText()).trim().split(/\s+/)
    expect(codes).to.have.length(10)
    await page.context().close()
    const halfway = async (): Promise<Page> => {
      const next = await (await lab.open()).newPage()
      await next.goto(lab.gateway.url)
      await fillLogin(next, 'careful')
      await next.locator('#code').waitFor()
      return next
    }
    const give = async (at: Page, code: string): Promise<void> => {
      await at.locator('#code').fill(code)
      await at.locator('form button[type=submit]').click()
    }
    const code = codeOf(secret, 1)
    const first = await halfway()
    await give(first, code)
    await first.locator('#main-content h1').waitFor()
    const second = await halfway()
    await give(second, code)
    await second.getByRole('alert').filter({ hasText: 'is wrong' }).waitFor()
    await second.getByRole('button', { name: 'recovery code' }).click()
    await give(second, codes[0]!)
    await second.locator('#main-content h1').waitFor()
    const third = await halfway()
    await third.getByRole('button', { name: 'recovery code' }).click()
    const answered = () =>
      waitFor(() => third.locator('form button[type=submit]').isEnabled(), { what: 'an answer to the code' })
    for (let at = 0; at < 20 && (await third.locator('#code').count()) > 0; at++) {
      await give(third, codes[0]!)
      await answered()
    }
    await third.locator('#password').waitFor()
    for (const page of [first, second, third]) await page.context().close()
  })

  it('can log in from one address while another is blocked for wrong passwords', async function () {
    await makeAdmin(lab.gateway, 'guessed')
    const from = async (address: string): Promise<Page> => {
      const page = await (await lab.open()).newPage()
      await page.setExtraHTTPHeaders({ 'x-forwarded-for': address })
      await page.goto(lab.gateway.url)
      return page
    }
    const guesser = await from('198.51.100.21')
    const refused = guesser.getByRole('alert').filter({ hasText: /Try again in \d+ s/ })
    for (let at = 0; at < 6 && !(await refused.isVisible()); at++) await failLogin(guesser, 'guessed')
    await refused.waitFor()
    const other = await from('198.51.100.22')
    await fillLogin(other, 'guessed')
    await other.locator('#main-content h1').waitFor()
    await eventually(async () => {
      const { body } = await lab.gateway.request('GET', '/login-logs?username=guessed')
      const rows = body.data as { success: boolean; ip: string; count?: number }[]
      expect(rows.filter(({ success }) => success).map(({ ip }) => ip)).to.deep.equal(['198.51.100.22'])
      expect(rows.some(({ success, ip }) => !success && ip === '198.51.100.21')).to.equal(true)
    })
    for (const page of [guesser, other]) await page.context().close()
  })
})
