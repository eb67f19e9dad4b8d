import { execFileSync } from 'node:child_process'
import { join, resolve } from 'node:path'
import { expect } from 'chai'
import { password } from '../support/gateway/browser.js'
import { endLeftGateway, GatewayProcess } from '../support/gateway/gateway-process.js'
import { scratchDirectory } from '../support/scratch.js'
import { tooWide } from './page-checks.js'
import { fillLogin, PanelLab } from './panel-lab.js'

const directory = '/var/tmp/btest-psu'
const program = resolve(import.meta.dirname, '../../dist/gateway/main.js')

/** Tests the way from the link that `scripts/up` prints to the first steps in the panel, on a new gateway. */
describe('the first administrator of a gateway', function () {
  let lab: PanelLab<GatewayProcess>
  let wipe: () => void
  before(async () => {
    await endLeftGateway(directory)
    ;({ wipe } = scratchDirectory('btest-psu'))
    const gateway = await GatewayProcess.create(directory)
    lab = await PanelLab.at(gateway)
    gateway.start()
    await gateway.ready()
  })
  after(async () => {
    await lab?.close()
    wipe?.()
  })

  /** Creates the setup link as `scripts/up` does. @returns "" if an administrator already exists */
  const printed = (): string => {
    const files = ['--config', join(directory, 'gateway.yaml'), '--url-file', join(directory, 'setup.url')]
    return execFileSync(process.execPath, [program, 'admin', 'first-link', ...files], {
      encoding: 'utf8',
    }).trim()
  }

  it('is created with the printed link, which works only once, and sees the page “First steps”', async () => {
    const link = printed()
    expect(link).to.match(/^http:\/\/127\.0\.0\.1:\d+\/setup#[\w-]{43}$/)
    const begun = performance.now()
    const page = await (await lab.open()).newPage()
    expect((await page.goto(link))?.status()).to.equal(200)
    await page.locator('#username').fill('ada')
    await page.waitForURL(`${lab.gateway.url}/setup`) // without the token
    for (const field of ['#password', '#again']) await page.locator(field).fill(password)
    await lab.picture(page, 'setup-first-wide')
    await page.getByRole('button', { name: 'Set up', exact: true }).click()
    await page.locator('#main-content h1').waitFor()
    console.log(`      in ${Math.round(performance.now() - begun)} ms from the link`)
    await page.getByRole('heading', { name: 'First steps', exact: true }).waitFor()
    await page.getByRole('link', { name: 'Public URL', exact: true }).waitFor()
    await lab.picture(page, 'first-steps-wide')
    await page.context().close()

    expect(printed(), 'no further link').to.equal('')
    for (const screen of ['wide', 'phone'] as const) {
      const other = await (await lab.open({ screen })).newPage()
      expect((await other.goto(link))?.status(), 'as a page that does not exist').to.equal(404)
      await other.getByRole('heading', { name: 'Invalid link', exact: true }).waitFor()
      expect(await other.locator('#password').count(), 'nothing to fill in').to.equal(0)
      expect(await tooWide(other)).to.equal(false)
      await lab.picture(other, `setup-used-${screen}`)
      await other.getByRole('link', { name: 'Log in' }).click()
      await fillLogin(other, 'ada')
      await other.locator('#main-content h1').waitFor()
      await other.context().close()
    }
    lab.complaints.errors.length = 0 // the browser logs each page that does not exist as an error
    lab.expectNoComplaints()
  })
})
