import { expect } from 'chai'
import type { BrowserContext, Page } from 'playwright-core'
import { makeAdmin } from '../support/gateway/browser.js'
import { freePort } from '../support/ports.js'
import { TestAuthority } from '../support/gateway/tls-material.js'
import { waitFor } from '../support/wait.js'
import { fillLogin, PanelLab } from './panel-lab.js'
import { TerminalPage } from './terminal-page.js'

const name = 'panel.test'

describe('the panel over TLS', function () {
  let lab: PanelLab
  let url: string
  let context: BrowserContext

  before(async () => {
    const authority = await TestAuthority.create()
    const port = await freePort()
    lab = await PanelLab.start({
      tls: { listen: { host: '127.0.0.1', port }, roots: [authority.rootPem] },
    })
    const { certPem, keyPem } = await authority.issue(name)
    const body = { mode: 'uploaded', target: name, cert_pem: certPem, key_pem: keyPem }
    const { status, text } = await lab.gateway.request('PUT', '/ssl', { body })
    expect(status, text).to.equal(200)
    url = `https://${name}:${port}`
    await lab.gateway.fleet.work('host-a')
  })
  after(() => lab.close())
  beforeEach(async () => {
    // Chromium does not trust the certificate authority of the test.
    context = await lab.browser.newContext({ ignoreHTTPSErrors: true, locale: 'en-US' })
    context.setDefaultTimeout(180_000)
  })
  afterEach(() => context.close())

  async function logIn(username: string): Promise<Page> {
    await makeAdmin(lab.gateway, username)
    const page = await context.newPage()
    await page.goto(`${url}/`)
    await page.locator('#username').waitFor()
    expect(await page.locator('.banner.warn').count(), 'no hint about encryption').to.equal(0)
    await fillLogin(page, username)
    await page.locator('#main-content h1').waitFor()
    return page
  }

  it('uses cookies that scripts cannot read, and that browsers send only to this server over TLS', async () => {
    const page = await logIn('ada')
    const cookies = await context.cookies()
    expect(cookies.map((cookie) => cookie.name).sort()).to.deep.equal(['__Host-berth', '__Host-berth-device'])
    for (const { value, ...cookie } of cookies) {
      const { httpOnly, secure, sameSite, path, domain } = cookie
      expect({ httpOnly, secure, sameSite, path, domain }, cookie.name).to.deep.equal({
        httpOnly: true,
        secure: true,
        sameSite: 'Strict',
        path: '/',
        domain: name,
      })
      const seen = await page.evaluate<string>(
        'document.cookie + JSON.stringify(localStorage) + JSON.stringify(sessionStorage)',
      )
      expect(seen).not.to.include(value)
    }
    const plain = await context.newPage()
    const port = new URL(lab.gateway.url).port
    const sent = plain.waitForRequest((request) => request.url().endsWith('/api/v1/session'))
    await plain.goto(`http://${name}:${port}/`)
    expect((await (await sent).allHeaders())['cookie'], 'nothing without TLS').to.equal(undefined)
    await plain.getByText('This connection is not encrypted', { exact: false }).waitFor()
  })

  it('shows changes live, and opens consoles', async () => {
    const guest = await lab.gateway.fleet.addGuest({ name: 'secured' })
    const page = await logIn('grace')
    await TerminalPage.prepare(context)
    await page.goto(`${url}/#/containers?text=secured`)
    await page.getByRole('row').getByText('Running').waitFor()
    await waitFor(() => lab.gateway.events.listeners > 0, { what: 'a stream' })
    await lab.gateway.request('POST', `/containers/${guest.id}/stop`, { body: {} })
    await page.getByRole('row').getByText('Stopped').waitFor()
    await lab.gateway.request('POST', `/containers/${guest.id}/start`, { body: {} })
    await page.getByRole('row').getByText('Running').waitFor()
    const sockets: string[] = []
    page.on('websocket', (socket) => sockets.push(socket.url()))
    await page.goto('about:blank')
    await page.goto(`${url}/#/containers/${guest.id}/console`)
    const view = new TerminalPage(page)
    await view.state('open')
    const { consoles } = lab.gateway.fleet.agentOf('host-a').host
    consoles.terminals.at(-1)!.show('under TLS')
    await view.shows(/under TLS/)
    expect(new Set(sockets.map((one) => new URL(one).protocol))).to.deep.equal(new Set(['wss:']))
  })

  it('offers to request a certificate again if its renewal is due', async () => {
    const page = await logIn('mary')
    const { body } = await lab.gateway.request('GET', '/ssl')
    const certificate = { ...body.data.certificate, renews_at: '2020-01-01 00:00:00' }
    const data = { ...body.data, mode: 'letsencrypt', email: 'admin@panel.test', certificate }
    await page.route('**/api/v1/ssl', (route) => route.fulfill({ json: { ...body, data } }))
    await page.goto(`${url}/#/settings`)
    const card = page.locator('form').filter({ has: page.locator('#tls-mode') })
    const renew = card.getByRole('button', { name: 'Request the certificate again', exact: true })
    await renew.waitFor()
    expect(await card.getByRole('button', { name: 'Save', exact: true }).isDisabled(), 'no change').to.equal(true)
    const sent = page.waitForRequest((one) => one.method() === 'PUT' && one.url().endsWith('/api/v1/ssl'))
    await renew.click()
    expect((await sent).postDataJSON()).to.deep.equal({ enabled: true, mode: 'letsencrypt' })
    await page.getByText('The certificate was renewed.', { exact: true }).waitFor()
  })
})
