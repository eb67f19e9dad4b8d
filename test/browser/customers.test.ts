import { expect } from 'chai'
import type { Page } from 'playwright-core'
import type { Guest } from '../../proto/gen/berth/agent/v1/guest.js'
import { password } from '../support/gateway/browser.js'
import { forgetConfirmation } from '../support/gateway/forget-confirmation.js'
import { SubUserCalls, type MadeSubUser } from '../support/gateway/sub-user-calls.js'
import { eventually, waitFor } from '../support/wait.js'
import { findingsOf, latinSentences, settled, tooWide } from './page-checks.js'
import { screens, openLab, type OpenOptions, type PanelLab } from './panel-lab.js'

const guestPages = ['', '/network', '/snapshots', '/console', '/activity', '/settings']

describe('customers in the panel', () => {
  let lab: PanelLab
  let own: Guest
  let other: Guest
  let made: MadeSubUser

  before(async function () {
    lab = await openLab()
    await lab.gateway.fleet.work('host-a')
    own = await lab.gateway.fleet.addGuest({ name: 'mine' })
    other = await lab.gateway.fleet.addGuest({ name: 'foreign' })
    made = await new SubUserCalls(lab.gateway).make({ container_name: 'mine' })
    await lab.gateway.request('POST', `/containers/${own.id}/snapshots`)
  })
  beforeEach(() => lab.forgetComplaints())

  /** Opens the login link of the customer, and logs in. */
  async function enter(options: OpenOptions = {}): Promise<Page> {
    const page = await (await lab.open(options)).newPage()
    await page.goto(`${lab.gateway.url}/u/${made.access_code}`)
    await page.locator('#password').waitFor()
    await page.waitForURL(`${lab.gateway.url}/login`) // without the code
    expect(await page.locator('body').innerText(), 'names no guest').not.to.include('mine')
    await page.locator('#password').fill(made.password)
    await page.locator('form button[type=submit]').click()
    await page.locator('#main-content h1').waitFor()
    return page
  }
  const namesActor = (path: string): boolean => /snapshots|activity|tasks/.test(path)
  const paths = (): string[] => [
    ...guestPages.map((part) => `/containers/${own.id}${part}`),
    '/containers',
    '/tasks',
    '/account',
  ]

  it('can log in with their link, and see only their own guest', async function () {
    const page = await enter()
    await page.getByRole('heading', { name: 'mine', exact: true }).waitFor()
    for (const path of paths()) {
      await lab.show(page, path)
      const text = await page.locator('body').innerText()
      expect(text, path).not.to.include('foreign')
      expect(text, path).not.to.include(made.access_code)
      expect(text, 'devices are for administrators').not.to.include('Devices of the host')
      expect(text, 'names of administrators').not.to.include('api:')
      expect(text, `${path} shows no UUID and no private address`).not.to.match(
        /[0-9a-f]{8}-[0-9a-f]{4}-|\b10\.\d+\.\d+\.\d+/,
      )
      if (namesActor(path)) await page.getByText('Provider').first().waitFor()
      expect(text, `${path} uses the word of customers`).not.to.match(/\bguests?\b(?! agent)/i)
    }
    const links = await page.evaluate<string[]>(
      `[...document.querySelectorAll('nav a[href^="#/"]')].map((one) => one.getAttribute('href')).filter((one) => !/[0-9]/.test(one))`,
    )
    expect(links).to.deep.equal(['#/', '#/containers', '#/tasks', '#/activity', '#/account'])
    const answers = await page.evaluate<string[]>(`Promise.all(['${other.id}', '999999'].map(async (id) => {
      const response = await fetch('/api/v1/containers/' + id)
      return response.status + (await response.text()).replace(/"request_id":"[^"]*"/, '')
    }))`)
    expect(answers[0], 'a foreign guest is reported like a missing one').to.equal(answers[1])
    await lab.show(page, `/containers/${other.id}`)
    const foreign = await page.locator('#main-content').innerText()
    await lab.show(page, '/containers/999999')
    const unknown = await page.locator('#main-content').innerText()
    const without = (text: string): string => text.replace(/Request \S+/, '')
    expect(without(foreign)).to.equal(without(unknown))
    await page.context().close()
  })

  it('see on the card of each server how to connect to it, and can stop it there', async function () {
    const second = await lab.gateway.fleet.addGuest({
      name: 'second',
      portMappings: [
        { containerPort: 22, containerPortEnd: 22, hostPort: 22_022, hostPortEnd: 22_022, protocol: 'tcp' } as const,
        {
          containerPort: 8000,
          containerPortEnd: 8009,
          hostPort: 30_000,
          hostPortEnd: 30_009,
          protocol: 'udp',
        } as const,
      ].map((mapping) => ({ ...mapping, hostIp: '', description: '' })),
    })
    const usual = made
    made = await new SubUserCalls(lab.gateway).make({ container_names: ['mine', 'second'] })
    for (const language of ['en', 'zh'] as const) {
      const page = await enter({ language, screen: 'phone' })
      const card = page.locator('section.card', { hasText: 'second' })
      await card.getByText(`ssh -p ${second.sshPort} root@192.0.2.10`).waitFor()
      const text = await card.innerText()
      expect(text)
        .to.match(/22022 → 22/)
        .and.to.match(/30000–30009 → 8000–8009 UDP/)
      expect(await page.locator('body').innerText(), 'private addresses').not.to.match(/\b10\.\d+\.\d+\.\d+/)
      expect(await tooWide(page)).to.equal(false)
      await lab.picture(page, `customer-cards-${language}`)
      await page.context().close()
    }
    const page = await enter()
    await page.context().grantPermissions(['clipboard-read', 'clipboard-write'])
    const card = page.locator('section.card', { hasText: 'second' })
    await card.getByRole('button', { name: 'Copy the SSH command' }).click()
    await card.getByText('Copied', { exact: true }).waitFor()
    await card.getByRole('meter', { name: 'CPU' }).waitFor()
    const memory = card.getByRole('meter', { name: 'Memory' })
    expect(await memory.getAttribute('aria-valuetext')).to.equal('1\u00a0MiB / 512\u00a0MiB')
    const quota = { monthly_traffic_gb: 1, traffic_action: 'throttle' }
    const limit = await lab.gateway.request('PUT', '/containers/second/traffic-limit', { body: quota })
    expect(limit.status, limit.text).to.equal(200)
    await lab.gateway.fleet.addTraffic(second.uuid, { rxBytes: 850_000_000, txBytes: 0 })
    await page.reload()
    await card.getByText('85% of the traffic quota is used. The speed is limited when the quota is used up.').waitFor()
    await memory.waitFor()
    await lab.picture(page, 'customer-card-usage-wide')
    await card.getByRole('button', { name: 'Stop', exact: true }).click()
    await page.getByRole('dialog', { name: 'Stop second?' }).getByRole('button', { name: 'Stop', exact: true }).click()
    await card.getByRole('button', { name: 'Start', exact: true }).waitFor()
    await memory.waitFor({ state: 'detached' })
    expect(await card.getByText('–', { exact: true }).count(), 'CPU and memory are not known').to.equal(2)
    await page.context().close()
    made = usual
  })

  it('see the reason for a suspension, and cannot start a suspended or expired guest', async function () {
    const guest = await lab.gateway.fleet.addGuest({ name: 'unpaid', status: 'stopped' })
    const customer = new SubUserCalls(lab.gateway)
    const usual = made
    made = await customer.make({ container_name: 'unpaid' })
    const admin = await lab.logIn()
    await lab.show(admin, `/containers/${guest.id}`)
    await admin.getByRole('button', { name: 'Actions for unpaid' }).click()
    await admin.getByRole('menuitem', { name: 'Suspend', exact: true }).click()
    const dialog = admin.getByRole('dialog')
    await dialog.locator('#suspend-reason').fill('<b>invoice 7</b>')
    await dialog.locator('#suspend-message').fill('Please pay <i>now</i>.')
    await dialog.getByRole('button', { name: 'Suspend', exact: true }).click()
    await admin.getByText('Reason: <b>invoice 7</b>').waitFor()
    const startOf = (at: Page) => at.getByRole('button', { name: 'Start', exact: true })
    await waitFor(() => startOf(admin).isDisabled(), { what: 'the administrator cannot start the guest' })
    await lab.show(admin, '/containers')
    await admin.locator('.badge', { hasText: 'Suspended' }).first().waitFor()
    const page = await enter()
    await lab.show(page, `/containers/${guest.id}`)
    await page.getByText('Please pay <i>now</i>.').waitFor()
    expect(await page.locator('body').innerText()).not.to.contain('invoice 7')
    const start = startOf(page)
    await eventually(async () =>
      expect([await start.isDisabled(), await start.getAttribute('title')]).to.deep.equal([
        true,
        'A suspended server can’t be started.',
      ]),
    )
    await lab.show(admin, `/containers/${guest.id}`)
    await admin.getByRole('button', { name: 'Actions for unpaid' }).click()
    await admin.getByRole('menuitem', { name: 'Lift the suspension' }).click()
    await page.getByText('Please pay').waitFor({ state: 'detached' })
    await waitFor(() => start.isEnabled(), { what: 'the customer can start the guest' })
    lab.gateway.fleet.agentOf('host-a').update(guest.uuid, { expiresAtMs: Date.now() + 6 * 86_400_000 })
    await page.getByText(/^This server expires on 20/).waitFor()
    const policy = { expired: true, overQuota: false }
    lab.gateway.fleet.agentOf('host-a').update(guest.uuid, { expiresAtMs: 1, policy })
    await page.getByText('Please contact your provider.').waitFor()
    await eventually(async () =>
      expect(await start.getAttribute('title')).to.equal('An expired server can’t be started.'),
    )
    expect(await start.isDisabled()).to.equal(true)
    await admin.getByRole('link', { name: 'Extend', exact: true }).click()
    await admin.locator('#expiry').waitFor()
    await page.context().close()
    await admin.context().close()
    made = usual
  })

  describe('together with administrators', () => {
    const publicUrl = (url: string) => lab.gateway.request('PUT', '/public-url', { body: { public_url: url } })
    after(() => publicUrl(''))

    it('are shown to administrators on the page of their guest, and can be given another guest there', async function () {
      const owned = await new SubUserCalls(lab.gateway).make({ container_name: 'mine', username: 'olga' })
      const page = await lab.logIn()
      await lab.show(page, `/containers/${own.id}`)
      await page.getByRole('link', { name: 'olga' }).waitFor()
      await lab.show(page, `/containers/${other.id}`)
      await page.getByRole('button', { name: 'Assign to customer' }).click()
      const dialog = page.getByRole('dialog')
      await dialog.locator('#assign-customer').selectOption({ label: 'olga' })
      await dialog.getByRole('button', { name: 'Assign to customer' }).click()
      await page.locator('#main-content').getByRole('link', { name: 'olga' }).waitFor()
      const { body } = await lab.gateway.request('GET', '/sub-users')
      const olga = (body.data as { id: string; container_names: string[] }[]).find(({ id }) => id === owned.id)
      expect(olga?.container_names).to.have.members(['mine', 'foreign'])
      await page.getByRole('link', { name: 'olga' }).click()
      await page.getByLabel('foreign', { exact: true }).uncheck()
      await page.getByLabel('Reinstall', { exact: true }).uncheck()
      await page.locator('#customer-ports').fill('3')
      await page.locator('#customer-expiry').fill('2031-05-01T12:00')
      await lab.picture(page, 'customer-edit-wide')
      const third = await lab.gateway.fleet.addGuest({ name: 'by-another-administrator' })
      await new SubUserCalls(lab.gateway).change(owned.id, { add_container_names: [third.name] })
      await page.locator('form').getByRole('button', { name: 'Save', exact: true }).click()
      await page.getByText('Saved', { exact: true }).waitFor()
      const changed = (await lab.gateway.request('GET', '/sub-users')).body.data as {
        id: string
        container_names: string[]
        permissions: string[]
      }[]
      const now = changed.find(({ id }) => id === owned.id)
      expect(now).to.deep.include({ container_names: ['mine', 'by-another-administrator'], port_mapping_limit: 3 })
      expect(now).to.include({ expires_at: '2031-05-01 12:00:00', image_limit_configured: false })
      expect(now?.permissions).to.include('container:power').and.not.to.include('container:reinstall')
      await page
        .locator('form')
        .getByLabel('by-another-administrator', { exact: true })
        .and(page.locator(':checked'))
        .waitFor()
      await page.context().close()
    })

    it('see a panel that full administrators can view, too, with a mark on each page', async function () {
      const [viewed] = (await lab.gateway.request('GET', '/sub-users')).body.data as { id: string; username: string }[]
      const support = await lab.logIn({ role: 'support' })
      await lab.show(support, `/sub-users/${viewed!.id}`)
      const begin = (at: Page) => at.getByRole('button', { name: 'View the panel as this customer' })
      expect(await begin(support).count(), 'for support').to.equal(0)
      await support.context().close()

      const page = await lab.logIn({ username: 'viewing' })
      const otherTab = await page.context().newPage()
      await otherTab.goto(`${lab.gateway.url}/#/hosts`)
      await otherTab.locator('#main-content h1').waitFor()
      await lab.show(page, `/sub-users/${viewed!.id}`)
      const cookies = await page.context().cookies()
      await forgetConfirmation(lab.gateway, cookies.find(({ name }) => name === 'berth')?.value ?? '')
      await begin(page).click()
      await page.locator('#prove-password').fill(password)
      await page.keyboard.press('Enter')
      const mark = (at: Page) => at.getByText(`You see the panel as ${viewed!.username}.`, { exact: false })
      for (const tab of [page, otherTab]) await mark(tab).waitFor()
      await lab.show(page, '/containers')
      await page.getByRole('link', { name: 'mine', exact: true }).waitFor()
      expect(await page.locator('body').innerText()).not.to.match(/\bguests?\b(?! agent)|api:/i)
      await lab.show(page, '/account')
      await page.getByText('In the customer view', { exact: false }).waitFor()
      expect(await page.locator('#main-content input').count(), 'fields of the account').to.equal(0)
      for (const screen of ['phone', 'wide'] as const) {
        await page.setViewportSize(screens[screen])
        expect([await tooWide(page), await findingsOf(page)], screen).to.deep.equal([false, []])
        await lab.picture(page, `customer-view-${screen}`)
      }
      await page.getByRole('button', { name: 'Return', exact: true }).click()
      await page.getByRole('heading', { name: 'Customers' }).waitFor()
      await mark(page).waitFor({ state: 'detached' })
      await otherTab.locator('.side a[href="#/hosts"]').waitFor()
      await page.context().close()
    })

    it('have a login link only after an administrator has set the public URL of the panel', async function () {
      const page = await lab.logIn()
      const { body } = await lab.gateway.request('GET', '/sub-users')
      await lab.show(page, `/sub-users/${body.data[0].id}`)
      await page.getByText('The public URL of the panel isn’t set', { exact: false }).waitFor()
      expect(await page.locator('#main-content').innerText(), 'no link').not.to.match(/https?:\/\/127/)
      await publicUrl('https://panel.example.com')
      await lab.show(page, '/sub-users')
      await lab.show(page, `/sub-users/${body.data[0].id}`)
      await page.getByText(`https://panel.example.com/u/${body.data[0].access_code}`).waitFor()
      await page.context().close()
    })

    it('see an SSH command that contains the public address of the host', async function () {
      const page = await enter()
      await lab.show(page, `/containers/${own.id}`)
      await page.getByText(`ssh -p ${own.sshPort} root@192.0.2.10`).waitFor()
      expect(await page.locator('body').innerText()).not.to.include('127.0.0.1')
      await page.context().close()
    })
  })

  it('are rejected by every route that customers must not use', async function () {
    const page = await enter()
    const routes = lab.gateway.api.routes.filter(
      ({ subUser = 'refused', scope, bound }) =>
        subUser === 'refused' && !['public', 'session'].includes(scope) && bound !== 'task',
    )
    expect(routes.length).to.be.greaterThan(50)
    const asked = routes.map(({ method, path }) => [
      method,
      path.replace('{id}', String(own.id)).replaceAll(/\{\w+\}/g, '1'),
    ])
    const statuses = await page.evaluate<number[]>(`(async () => {
      const csrf = (await (await fetch('/api/v1/session')).json()).data.csrf
      const found = []
      for (const [method, path] of ${JSON.stringify(asked)}) {
        const headers = method === 'GET' ? {} : { 'X-Berth-CSRF': csrf, 'Content-Type': 'application/json' }
        const body = method === 'GET' ? undefined : '{}'
        found.push((await fetch('/api/v1' + path, { method, headers, body })).status)
      }
      return found
    })()`)
    const let_in = asked.filter((_, at) => statuses[at] !== 403).map((route, at) => [...route, statuses[at]])
    expect(let_in).to.deep.equal([])
    await page.context().close()
  })

  /** Returns the names of the screen sizes at which the page scrolls sideways. */
  async function readTooWide(page: Page, path: string): Promise<string[]> {
    const found: string[] = []
    for (const screen of ['phone', 'wide'] as const) {
      await page.setViewportSize(screens[screen])
      await settled(page)
      await lab.picture(page, `customer${path.replaceAll('/', '-').replace(/-\d+/, '-guest')}-${screen}`)
      if (await tooWide(page)) found.push(`${screen} screen`)
    }
    return found
  }

  for (const [language, theme] of [
    ['en', 'light'],
    ['zh', 'dark'],
  ] as const)
    it(`have safe, accessible and translated pages that fit each screen, in the language ${language} and the ${theme} theme`, async function () {
      const found: string[] = []
      const page = await enter({ language, theme })
      for (const path of ['/', ...paths()]) {
        await lab.show(page, path)
        const problems = await findingsOf(page)
        if (language === 'en') problems.push(...(await readTooWide(page, path)))
        else problems.push(...latinSentences(await page.locator('body').innerText()))
        found.push(...problems.map((one) => `${path}: ${one}`))
      }
      expect(found).to.deep.equal([])
      lab.expectNoComplaints()
      await page.context().close()
    })
})
