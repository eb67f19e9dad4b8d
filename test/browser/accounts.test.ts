import { expect } from 'chai'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { hostname, tmpdir } from 'node:os'
import { join } from 'node:path'
import jsQR from 'jsqr'
import { generateSync } from 'otplib'
import type { Locator, Page, Route } from 'playwright-core'
import { startBerth } from '../support/cli/berth.js'
import { makeAdmin } from '../support/gateway/browser.js'
import { forgetConfirmation } from '../support/gateway/forget-confirmation.js'
import { eventually, waitFor } from '../support/wait.js'
import { focused } from './page-checks.js'
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

/**
 * Delays the answer to the next change at this address until the gateway has refused another request. A change of the
 * account ends the former session, and only the answer brings the cookie of the new one.
 */
async function answerAfterRefusal(page: Page, url: string): Promise<void> {
  const answerLate = async (route: Route): Promise<void> => {
    const request = route.request()
    const refused = page.waitForResponse((response) => response.status() === 401)
    const headers = { ...(await request.allHeaders()), 'accept-encoding': 'identity' }
    const answer = await fetch(request.url(), { method: request.method(), headers, body: request.postData() })
    await refused
    const body = Buffer.from(await answer.arrayBuffer())
    const cookies = { 'set-cookie': answer.headers.getSetCookie().join('\n') }
    await route.fulfill({ status: answer.status, headers: { ...Object.fromEntries(answer.headers), ...cookies }, body })
  }
  await page.route(url, answerLate, { times: 1 })
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
    await second.getByRole('alert').filter({ hasText: 'The code is wrong.' }).waitFor()
    await second.getByRole('button', { name: 'recovery code' }).click()
    await second.getByRole('alert').waitFor({ state: 'detached' })
    await focused(second.locator('#code'))
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

  it('can confirm a login of the command line, which then has a key of the account', async () => {
    const home = await mkdtemp(join(tmpdir(), 'btest-cli-login-'))
    const page = await lab.logIn({ username: 'commanding' })
    const login = startBerth(['login', lab.gateway.url, '--no-browser'], { HOME: home })
    await waitFor(() => /type this code: \S+/.test(login.err()), { what: () => `a code in ${login.err()}` })
    await lab.show(page, '/cli-login')
    await page.locator('#cli-code').fill('BBBB-BBBB')
    await page.getByRole('button', { name: 'Next', exact: true }).click()
    await page.getByRole('alert').filter({ hasText: 'No login waits with this code' }).waitFor()
    await page.locator('#cli-code').fill(/type this code: (\S+)/.exec(login.err())![1]!.toLowerCase())
    await page.getByRole('button', { name: 'Next', exact: true }).click()
    await page.getByText('Only confirm a login that you have started yourself').waitFor()
    await page.locator('.kv').filter({ hasText: hostname() }).filter({ hasText: '127.0.0.1' }).waitFor()
    expect(await page.locator('#cli-expiry').inputValue()).to.match(/^\d{4}-\d\d-\d\dT/)
    await lab.picture(page, 'cli-login-wide')
    await page.locator('#cli-rights').selectOption('all')
    await page.getByRole('button', { name: 'Confirm the login', exact: true }).click()
    await page.getByRole('status').filter({ hasText: 'The login was confirmed' }).waitFor()
    const { code, err } = await login.ended
    expect(code, err).to.equal(0)
    const hosts = await startBerth(['host', 'list', '-q'], { HOME: home }).ended
    expect(hosts.out, hosts.err).to.contain('host-a')
    await lab.show(page, '/api')
    await page.getByText(`berth on ${hostname()}`, { exact: true }).waitFor()
    await page.context().close()
    await rm(home, { recursive: true })
  })

  it('can add a passkey, log in with it in place of the password or after it, and confirm changes', async () => {
    const page = await lab.logIn({ username: 'keyed' })
    const at = (address: string) => address.replace('127.0.0.1', 'localhost') // browsers need a name for passkeys
    const device = await page.context().newCDPSession(page)
    await device.send('WebAuthn.enable')
    const options = {
      protocol: 'ctap2',
      transport: 'internal',
      hasResidentKey: true,
      hasUserVerification: true,
    } as const
    await device.send('WebAuthn.addVirtualAuthenticator', { options: { ...options, isUserVerified: true } })
    await page.goto(at(lab.gateway.url))
    await fillLogin(page, 'keyed')
    await page.locator('#main-content h1').waitFor()
    await page.goto(at(`${lab.gateway.url}/#/account`))
    await page.getByRole('button', { name: 'Add a passkey', exact: true }).click()
    const dialog = page.getByRole('dialog')
    await dialog.locator('#passkey-name').fill('Laptop')
    await answerAfterRefusal(page, '**/api/v1/account/passkeys')
    await dialog.getByRole('button', { name: 'Add a passkey', exact: true }).click()
    await page.locator('[data-secret]').waitFor()
    expect((await page.locator('[data-secret]').innerText()).trim().split(/\s+/)).to.have.length(10)
    await page.keyboard.press('Escape')
    await page.getByRole('button', { name: 'Rename the passkey Laptop', exact: true }).click()
    await dialog.locator('#passkey-new-name').fill('Desk')
    await dialog.getByRole('button', { name: 'Save', exact: true }).click()
    await page.getByRole('button', { name: 'Rename the passkey Desk', exact: true }).waitFor()
    await lab.picture(page, 'passkeys-wide')
    const withPasskey = page.getByRole('button', { name: 'Log in with a passkey', exact: true })
    await page.context().clearCookies()
    await page.goto(at(`${lab.gateway.url}/login`))
    await withPasskey.click()
    await page.locator('#main-content h1').waitFor()
    await page.context().clearCookies()
    await page.goto(at(`${lab.gateway.url}/login`))
    await fillLogin(page, 'keyed')
    await page.locator('#code').waitFor()
    await withPasskey.click()
    await page.locator('#main-content h1').waitFor()
    await page.goto(at(`${lab.gateway.url}/#/account`))
    await page.getByRole('button', { name: 'Remove the passkey Desk', exact: true }).click()
    const cookies = await page.context().cookies()
    await forgetConfirmation(lab.gateway, cookies.find(({ name }) => name === 'berth')?.value ?? '')
    await dialog.getByRole('button', { name: 'Delete', exact: true }).click()
    await page.locator('#prove-password').waitFor()
    await lab.picture(page, 'prove-passkey-wide')
    await page.getByRole('button', { name: 'Confirm with a passkey', exact: true }).click()
    await page.getByText('No passkeys are stored.', { exact: true }).waitFor()
    await page.context().close()
  })

  it('see the name and the logo of the provider, even before the login', async () => {
    const page = await lab.logIn()
    await lab.show(page, '/settings')
    const card = page.locator('form').filter({ has: page.locator('#brand-name') })
    const svg = '<svg xmlns="http://www.w3.org/2000/svg" width="2000" height="500"><rect width="9" height="9"/></svg>'
    await card.locator('#brand-name').fill('Example <Hosting>')
    const file = { name: 'logo.svg', mimeType: 'image/svg+xml', buffer: Buffer.from(svg) }
    await card.locator('#brand-logo').setInputFiles(file)
    await card.getByRole('img', { name: 'Logo', exact: true }).waitFor()
    await card.getByRole('button', { name: 'Save', exact: true }).click()
    await page.locator('.brand').getByText('Example <Hosting>', { exact: true }).waitFor()
    await lab.picture(page, 'branding-wide')
    const stranger = await (await lab.open()).newPage()
    await stranger.goto(lab.gateway.url)
    await stranger.locator('main').getByText('Example <Hosting>', { exact: true }).waitFor()
    expect(await stranger.title()).to.equal('Log in · Example <Hosting>')
    const size = `(({ naturalWidth: w, naturalHeight: h }) => w + ' x ' + h)(document.querySelector('.gate-head img'))`
    await waitFor(async () => (await stranger.evaluate(size)) === '512 x 128', { what: 'the logo' })
    await lab.picture(stranger, 'branding-login')
    await card.getByRole('button', { name: 'Remove the logo', exact: true }).click()
    await card.locator('#brand-name').fill('')
    await card.getByRole('button', { name: 'Save', exact: true }).click()
    await page.locator('.brand').getByText('Berth', { exact: true }).waitFor()
    expect((await lab.gateway.request('GET', '/branding')).body.data).to.deep.equal({ name: '', logo_url: '' })
    for (const one of [page, stranger]) await one.context().close()
    lab.expectNoComplaints()
  })

  it('change the settings of the installation', async () => {
    const page = await lab.logIn()
    await lab.show(page, '/settings')
    const form = (id: string) => page.locator('form').filter({ has: page.locator(id) })
    const save = (id: string) => form(id).getByRole('button', { name: 'Save', exact: true }).click()
    const data = async (path: string): Promise<object> => (await lab.gateway.request('GET', path)).body.data as object
    const stores = (path: string, fields: object) =>
      eventually(async () => expect(await data(path)).to.deep.include(fields))
    await page.locator('#undo-hours').fill('24')
    await save('#undo-hours')
    await stores('/deletion-settings', { undo_delete_hours: 24 })
    await page.locator('#origins').fill('https://billing.example\nhttps://shop.example')
    await save('#origins')
    await stores('/webssh-origins', { origins: ['https://billing.example', 'https://shop.example'] })
    await page.getByLabel('Restrict access to these addresses', { exact: true }).check()
    await page.locator('#policy-sources').fill('192.0.2.0/24')
    await save('#policy-sources')
    await stores('/access-policy', { enabled: true, allowed_sources: ['192.0.2.0/24'] })
    const agree = (name: string) => page.getByRole('dialog').getByRole('button', { name, exact: true }).click()
    await page.getByRole('button', { name: '中文', exact: true }).click()
    await agree('Change the language')
    await stores('/language', { language: 'zh' })
    await page.getByRole('button', { name: 'Everybody', exact: true }).click()
    await page.getByRole('dialog', { name: 'Require two-factor authentication of everybody?', exact: true }).waitFor()
    await agree('Change the rule')
    await stores('/login-settings', { require_2fa: 'all' })
    for (const [path, body] of [
      ['/login-settings', { require_2fa: 'none' }],
      ['/language', { language: 'en' }],
      ['/access-policy', { enabled: false, allowed_sources: [], trusted_proxies: [] }],
      ['/webssh-origins', { origins: [] }],
      ['/deletion-settings', { undo_delete_hours: 0 }],
    ] as const)
      expect((await lab.gateway.request('PUT', path, { body })).status, path).to.equal(200)
    await page.context().close()
  })

  it('see and enter times in the time zone that they choose', async () => {
    const guest = await lab.gateway.fleet.addGuest({ name: 'timed' })
    const path = `/containers/${guest.id}`
    await lab.gateway.request('PUT', `${path}/expiry`, { body: { expires_at: '2031-01-01T00:00:00Z' } })
    const page = await lab.logIn()
    await lab.show(page, '/account')
    await page.locator('#time-zone').selectOption('Asia/Shanghai')
    await page.getByText('Saved', { exact: true }).waitFor()
    await lab.show(page, path)
    await page.locator('dd').getByText('2031-01-01 08:00', { exact: true }).waitFor()
    await lab.show(page, `${path}/settings`)
    const field = page.locator('#expiry')
    expect(await field.inputValue()).to.equal('2031-01-01T08:00')
    await field.fill('2031-01-02T09:30')
    await page.locator('form').filter({ has: field }).getByRole('button', { name: 'Save', exact: true }).click()
    const expiry = async (): Promise<unknown> => (await lab.gateway.request('GET', path)).body.data.expires_at
    const zone = await page.evaluate<string>(
      `fetch('/api/v1/session').then((answer) => answer.json()).then(({ data }) => data.time_zone)`,
    )
    const wanted = new Intl.DateTimeFormat('sv', { timeZone: zone, dateStyle: 'short', timeStyle: 'medium' })
    const text = wanted.format(Date.parse('2031-01-02T01:30:00Z'))
    await waitFor(async () => (await expiry()) === text, { what: `the expiry ${text}` })
    await lab.show(page, '/logs')
    await page.getByText('Time zone: Asia/Shanghai.', { exact: true }).first().waitFor()
    const shown = await page.locator('td[data-label="Time"]').first().innerText()
    const times = (await lab.gateway.request('GET', '/audit-logs')).body.data as { time: string }[]
    expect(times.map(({ time }) => time)).to.include(wanted.format(Date.parse(`${shown.replace(' ', 'T')}+08:00`)))
    await page.context().close()
  })

  it('find entries of the log by action, object and result, and save them as CSV', async () => {
    const { id } = await lab.gateway.fleet.addGuest({ name: 'logged' })
    await lab.gateway.request('PATCH', `/containers/${id}`, { body: { tags: ['found'] } })
    await lab.gateway.request('PUT', `/containers/${id}/expiry`, { body: { expires_at: '2031-01-02 00:00:00' } })
    const page = await lab.logIn()
    await lab.show(page, '/logs')
    const rows = page.locator('#main-content tbody tr')
    await page.locator('#log-action').selectOption({ label: 'Expiry changed' })
    await page.locator('#log-target').fill('logged')
    await waitFor(async () => (await rows.count()) === 1, { what: 'one entry' })
    await rows.getByText('Expiry changed', { exact: true }).waitFor()
    const [file] = await Promise.all([
      page.waitForEvent('download'),
      page.getByRole('button', { name: 'Export CSV', exact: true }).click(),
    ])
    const lines = (await readFile(await file.path(), 'utf8')).split('\r\n').filter(Boolean)
    expect(lines[0]).to.match(/^\uFEFFtime,action,target,/)
    expect(lines).to.have.length(2)
    await page.locator('#log-result').selectOption('failure')
    await page.getByText('No entries.', { exact: true }).waitFor()
    await page.locator('#log-result').selectOption('')
    await page.locator('#log-from').fill('2040-01-01T00:00')
    await page.getByText('No entries.', { exact: true }).waitFor()
    await page.context().close()
  })

  it('see only the actions that their role permits, and send no request that is refused', async () => {
    const guest = await lab.gateway.fleet.addGuest({ name: 'looked-at' })
    const page = await lab.logIn({ username: 'onlooker', role: 'read_only' })
    const refused: string[] = []
    page.on('response', (answer) => (answer.status() === 403 ? refused.push(answer.url()) : undefined))
    const tabs = ['', '/network', '/snapshots', '/backups', '/activity', '/settings']
    const pages = [
      '/',
      '/containers',
      '/hosts',
      '/hosts/host-a',
      '/images',
      '/backups',
      '/security',
      '/sub-users',
      '/logs',
    ]
    for (const path of [...pages, ...tabs.map((tab) => `/containers/${guest.id}${tab}`)]) {
      await lab.show(page, path)
      const main = page.locator('#main-content')
      for (const name of ['Save', 'Delete', 'Start', 'Stop', 'Add a host', 'Add a customer', 'Create guest'])
        expect(
          await main.getByRole('button', { name, exact: true, disabled: false }).count(),
          `${name} on ${path}`,
        ).to.equal(0)
    }
    const navigation = page.getByRole('navigation', { name: 'Main navigation', exact: true })
    expect(await navigation.getByRole('link', { name: 'Settings', exact: true }).count()).to.equal(0)
    expect(refused).to.deep.equal([])
    const full = await lab.logIn()
    await lab.show(full, '/settings')
    const row = full.locator('tr').filter({ hasText: 'onlooker' })
    await row.getByRole('button', { name: 'Change the role', exact: true }).click()
    const dialog = full.getByRole('dialog', { name: 'Role of onlooker', exact: true })
    await dialog.locator('#changed-role').selectOption('support')
    await dialog.getByRole('button', { name: 'Save', exact: true }).click()
    await row.getByText('Support', { exact: true }).waitFor()
    for (const one of [page, full]) await one.context().close()
  })

  it('can log in from one address while another address is blocked for wrong passwords', async function () {
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
