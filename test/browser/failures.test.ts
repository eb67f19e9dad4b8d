import { expect } from 'chai'
import type { Page, Route } from 'playwright-core'
import { waitFor } from '../support/wait.js'
import { settled } from './page-checks.js'
import { openLab, type PanelLab } from './panel-lab.js'

/** The panel must not show a blank page or zeros if its scripts or data are missing. */
describe('the panel with missing scripts or data', function () {
  let lab: PanelLab
  let page: Page

  before(async () => {
    lab = await openLab()
    await lab.gateway.fleet.addGuest({ name: 'counted' })
  })
  beforeEach(async () => (page = await lab.logIn()))
  afterEach(async () => {
    await page.context().close()
    lab.forgetComplaints()
  })

  const fails = (route: Route): Promise<void> =>
    route.fulfill({ status: 500, json: { success: false, code: 'internal_error', message: 'out of order' } })
  const hostsScript = '**/assets/Hosts-*.js'
  const loadFailed = () => page.getByRole('alert').filter({ hasText: 'This page could not be loaded.' })
  const open = (path: string): Promise<unknown> => page.evaluate(`location.hash = '${path}'`)

  it('reports that the script of a page did not load, and loads the script on request', async () => {
    await page.route(hostsScript, (route) => route.abort())
    await open('/hosts')
    await loadFailed().waitFor()
    await lab.picture(page, 'load-failed-wide')
    await page.unroute(hostsScript)
    await loadFailed().getByRole('button', { name: 'Try again' }).click()
    await page.getByRole('heading', { name: 'Hosts', level: 1, exact: true }).waitFor()
  })

  it('reloads the page only once if the gateway has another version', async () => {
    let loads = 0
    page.on('load', () => loads++)
    await page.route(hostsScript, (route) => route.abort())
    await page.route(`${lab.gateway.url}/`, async (route) => {
      if (route.request().resourceType() === 'document') return route.continue()
      const answer = await route.fetch()
      const body = (await answer.text()).replace(/\/assets\/index-[\w-]+\.js/, '/assets/index-newer.js')
      return route.fulfill({ response: answer, body })
    })
    await open('/hosts')
    await loadFailed().waitFor()
    await waitFor(() => loads > 0, { what: 'the reload' })
    await settled(page)
    expect(loads, 'once, not for ever').to.equal(1)
  })

  for (const { script, code, error, input } of [
    {
      script: 'Prove',
      code: 'confirmation_required',
      error: 'This change requires your password',
      input: '#prove-password',
    },
    { script: 'LoginAgain', code: 'unauthorized', error: 'You are not logged in.', input: '#password' },
  ])
    it(`shows the API’s error while the script “${script}” of a dialog cannot load, and the dialog at the next attempt`, async () => {
      const scriptUrl = `**/assets/${script}-*.js`
      const status = code === 'unauthorized' ? 401 : 403
      await page.route(scriptUrl, (route) => route.abort())
      await page.route('**/api/v1/api-keys', (route) =>
        route.request().method() === 'POST'
          ? route.fulfill({ status, json: { success: false, code, message: code } })
          : route.continue(),
      )
      const early = page.waitForEvent('requestfailed', (request) => request.url().includes(`/${script}-`))
      await page.reload()
      await early
      await open('/api')
      await page.getByRole('button', { name: 'Create API key' }).click()
      await page.locator('#key-name').fill('typed')
      const submit = page.getByRole('dialog').getByRole('button', { name: 'Create API key' })
      await submit.click()
      await page.getByRole('alert').filter({ hasText: error }).waitFor()
      expect(await loadFailed().count()).to.equal(0)
      await page.unroute(scriptUrl)
      await submit.click()
      await page.locator(input).waitFor()
      expect(await page.locator('#key-name').inputValue()).to.equal('typed')
    })

  it('loads the login dialog in advance on the page of a console', async () => {
    const early = page.waitForRequest('**/assets/LoginAgain-*.js')
    await page.goto(`${lab.gateway.url}/console/counted`)
    await early
  })

  it('shows a message if its first script does not load', async () => {
    await page.route('**/assets/index-*.js', (route) => route.abort())
    await page.goto(`${lab.gateway.url}/login`)
    await page.getByText('reload the page').waitFor()
  })

  it('does not show the login if the gateway has an internal error', async () => {
    await page.route('**/api/v1/session', fails)
    await page.reload()
    const again = page.getByRole('button', { name: 'Try again' })
    await again.waitFor()
    expect(await page.locator('#password').count(), 'no login form').to.equal(0)
    await page.unroute('**/api/v1/session')
    await again.click()
    await page.locator('#main-content h1').waitFor()
  })

  it('shows dashes, not zeros, if the overview could not be read', async () => {
    const read = /\/api\/v1\/(containers|container-usage|hosts|tasks|security\/summary|fleet-usage)(\?|$)/
    await page.route(read, fails)
    await page.reload()
    const unread = page.getByRole('alert').filter({ hasText: 'Some data could not be read.' }).first()
    await unread.waitFor()
    await page.getByText('– of – hosts online · – of – guests running', { exact: true }).waitFor()
    const shown = await page.locator('#main-content').innerText()
    expect(shown.replaceAll(/Request \S+/g, ''), 'no figure at all').not.to.match(/\d+ (hosts|guests|%)/)
    expect(shown).not.to.include('Nothing needs attention')
    await lab.picture(page, 'overview-unread-wide')
    await page.unroute(read)
    await unread.getByRole('button', { name: 'Try again' }).click()
    await page.getByText('1 of 1 hosts online', { exact: false }).waitFor()
    await unread.waitFor({ state: 'detached' })
  })

  it('keeps earlier data on the page, with a message, if the data cannot be refreshed', async () => {
    await lab.show(page, '/hosts')
    await page.route('**/api/v1/hosts', fails)
    await page.evaluate('window.dispatchEvent(new Event("focus"))')
    await lab.gateway.request('PATCH', '/hosts/host-a', { body: { draining: true } })
    await page.getByRole('alert').filter({ hasText: 'Some data could not be read.' }).first().waitFor()
    expect(await page.locator('#main-content').innerText()).to.include('host-a')
    await lab.gateway.request('PATCH', '/hosts/host-a', { body: { draining: false } })
  })

  it('shows the last page of a list when the list has become shorter', async () => {
    let total = 101
    await page.route(/\/api\/v1\/audit-logs\?/, (route) =>
      route.fulfill({ json: { success: true, data: [] }, headers: { 'x-total-count': String(total) } }),
    )
    await lab.show(page, '/logs')
    for (const shown of ['Page 2 of 3', 'Page 3 of 3']) {
      await page.getByRole('button', { name: 'Next', exact: true }).click()
      await page.getByText(shown, { exact: true }).waitFor()
    }
    total = 51
    await page.evaluate('window.dispatchEvent(new Event("focus"))')
    await page.getByText('Page 2 of 2').waitFor()
    total = 50
    const first = page.waitForRequest((request) => request.url().includes('/audit-logs?page=1&'))
    await page.evaluate('window.dispatchEvent(new Event("focus"))')
    await first
  })

  it('removes a webhook from the list if the user tries to enable it after its deletion', async () => {
    const body = { name: 'removed-meanwhile', url: 'https://hooks.example.com/berth', disabled: true }
    const { body: made } = await lab.gateway.request('POST', '/webhooks', { body })
    await lab.show(page, '/webhooks')
    const row = page.getByRole('row').filter({ hasText: body.name })
    await row.waitFor()
    await lab.gateway.request('DELETE', `/webhooks/${made.data.id}`)
    await row.getByRole('button', { name: 'Enable', exact: true }).click()
    await row.waitFor({ state: 'detached' })
  })

  it('shows the usage of an address pool of unlimited size', async () => {
    const body = { ipv6_prefixes: [{ interface: 'eth0', prefix: '2001:db8:1::/64' }] }
    const { status, text } = await lab.gateway.request('PUT', '/routing', { body })
    expect(status, text).to.equal(200)
    await lab.show(page, '/routing')
    await page.getByText('0 used · unlimited').waitFor()
    expect(await page.locator('body').innerText()).not.to.match(/NaN|Infinity|undefined/)
    await lab.gateway.request('PUT', '/routing', { body: { ipv6_prefixes: [] } })
  })

  it('lists the public addresses of a host with their guests, and the free addresses', async () => {
    const [{ body: routing }, { body: containers }] = await Promise.all([
      lab.gateway.request('GET', '/routing?host_id=host-a'),
      lab.gateway.request('GET', '/containers'),
    ])
    const { id, name } = containers.data[0] as { id: number; name: string }
    const at = (address: string) => ({ address, interface: 'eth0', prefix_len: 24, gateway: '203.0.113.1' })
    const data = {
      ...routing.data,
      public_ipv4_addresses: [at('203.0.113.10'), at('203.0.113.9')],
      ipv4_assignments: [{ ...at('203.0.113.10'), container_id: id, container_name: name }],
    }
    await page.route('**/api/v1/routing?*', (route) => route.fulfill({ json: { success: true, data } }))
    await lab.show(page, '/routing')
    const table = page.getByRole('region', { name: 'Public addresses', exact: true })
    await table.getByText('2 of 2', { exact: true }).waitFor()
    const rows = async () => (await table.locator('tbody tr').allInnerTexts()).map((text) => text.split(/\s+/))
    expect(await rows()).to.deep.equal([
      ['203.0.113.9', 'Free', '–'],
      ['203.0.113.10', name, '–'],
    ])
    await table.getByLabel('Find by address, guest or customer', { exact: true }).fill(name.toUpperCase())
    await table.getByText('1 of 2', { exact: true }).waitFor()
    await table.getByRole('link', { name, exact: true }).click()
    await page.getByRole('heading', { name, level: 1 }).waitFor()
    await page.unroute('**/api/v1/routing?*')
  })

  it('shows the names of hosts, not their ids', async () => {
    const rename = (name: string) => lab.gateway.request('PATCH', '/hosts/host-a', { body: { name } })
    await rename('fra1-node1')
    try {
      const { body } = await lab.gateway.request('GET', '/containers?name=counted')
      for (const path of ['/', '/containers', '/images', '/hosts', `/containers/${body.data[0].id}`, '/tasks']) {
        await lab.show(page, path)
        await page.reload()
        await lab.loaded(page)
        await waitFor(async () => !/\bhost-a\b/.test(await page.locator('body').innerText()), { what: path })
      }
      await lab.show(page, '/containers')
      await page.getByRole('row').filter({ hasText: 'counted' }).getByText('fra1-node1').waitFor()
    } finally {
      await rename('host-a')
    }
  })
})
