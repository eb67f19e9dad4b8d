import { expect } from 'chai'
import { readFile } from 'node:fs/promises'
import type { Page } from 'playwright-core'
import { eventually, waitFor } from '../support/wait.js'
import { findingsOf, settled, tooWide } from './page-checks.js'
import { openLab, type PanelLab } from './panel-lab.js'

const gib = 1024 ** 3

describe('the list of guests', function () {
  let lab: PanelLab
  let page: Page

  before(async () => {
    lab = await openLab()
    const { fleet } = lab.gateway
    await fleet.work('host-a')
    const soon = Date.now() + 3 * 86_400_000
    const busy = await fleet.addGuest({ name: 'shop-db', expiresAtMs: soon, snapshotLimit: 3 })
    await fleet.addGuest({ name: 'shop-web', snapshotLimit: 3 })
    await fleet.addGuest({ name: 'blog', status: 'stopped', expiresAtMs: soon, snapshotLimit: 0 })
    await lab.gateway.request('POST', '/sub-user/create', { body: { container_name: 'shop-db', username: 'ada' } })
    const { host, domain } = fleet.agentOf('host-a')
    host.driver.sample = { ...host.driver.sample, memoryBytes: gib / 4, diskBytes: 9 * gib }
    domain.sampler.observed([{ uuid: busy.uuid, state: 'running', pid: 1 }])
    await domain.sampler.sample()
    page = await lab.logIn()
    await lab.show(page, '/containers')
  })
  after(() => page.context().close())

  const row = (name: string) => page.locator('.guest-row').filter({ hasText: name })
  const expiryOf = async (name: string): Promise<string> =>
    (await lab.gateway.request('GET', `/containers/${name}`)).body.data.expires_at as string

  it('shows the usage of guests, and a dash where the usage is unknown', async () => {
    await row('shop-db').getByText('50%', { exact: true }).waitFor() // memory: 256 of 512 MiB
    await row('shop-db').getByText('90%', { exact: true }).waitFor() // disk: 9 of 10 GiB
    expect(await row('blog').getByText('–', { exact: true }).count()).to.be.at.least(2)
  })

  it('opens a guest by a click anywhere on its row, but not by a click on its checkbox', async () => {
    await row('blog').getByRole('checkbox').check()
    await page.getByText('1 selected', { exact: true }).waitFor()
    expect(await page.evaluate<string>('location.hash')).to.match(/^#\/containers($|\?)/)
    await page.getByRole('button', { name: 'Clear selection', exact: true }).click()
    const box = (await row('blog').boundingBox())!
    await page.mouse.click(box.x + box.width * 0.55, box.y + box.height / 2)
    await page.getByRole('heading', { name: 'blog', level: 1 }).waitFor()
    await lab.show(page, '/containers')
  })

  it('remembers the selected columns in the browser, and can be sorted by these columns', async () => {
    await page.getByText('Columns', { exact: true }).click()
    await page.getByLabel('Owner', { exact: true }).check()
    await page.getByLabel('Address', { exact: true }).uncheck()
    await page.keyboard.press('Escape')
    await page.reload()
    await page.getByRole('columnheader', { name: 'Owner' }).waitFor()
    expect(await page.getByRole('columnheader', { name: 'Address' }).count()).to.equal(0)
    await page.getByRole('button', { name: 'Owner', exact: false }).click()
    await waitFor(async () => (await page.locator('.guest-row .name').first().innerText()) === 'shop-db', {
      what: 'sorted by owner',
    })
    await page.getByText('Columns', { exact: true }).click()
    await page.getByRole('button', { name: 'Default columns', exact: true }).click()
    await page.keyboard.press('Escape')
    await page.getByRole('button', { name: 'Address', exact: true }).click()
    await page.locator('[aria-sort=ascending]').filter({ hasText: 'Address' }).waitFor()
  })

  it('stores columns, filters and order under a name in the browser', async () => {
    const views = page.getByText('Views', { exact: true })
    const byName = page.getByRole('button', { name: 'Name', exact: true })
    const status = page.getByRole('combobox', { name: 'Status', exact: true })
    await byName.click()
    await byName.click()
    await status.selectOption('running')
    await page.getByText('2 of 3', { exact: true }).waitFor()
    const address = () => page.evaluate<string>('location.hash')
    await eventually(async () => expect(await address()).to.include('status=running'))
    await page.getByText('Columns', { exact: true }).click()
    await page.getByLabel('vCPU', { exact: true }).check()
    await page.keyboard.press('Escape')
    await views.click()
    await page.getByLabel('Name of the view', { exact: true }).fill('Running')
    await page.getByRole('button', { name: 'Save', exact: true }).click()
    await page.getByRole('button', { name: 'Running', exact: true, pressed: true }).waitFor()
    await page.keyboard.press('Escape')
    await page.getByText('Columns', { exact: true }).click()
    await page.getByRole('button', { name: 'Default columns', exact: true }).click()
    await page.keyboard.press('Escape')
    await status.selectOption('')
    await eventually(async () => expect(await address()).not.to.include('status'))
    await page.reload()
    await page.getByText('3 of 3', { exact: true }).waitFor()
    expect(await page.getByRole('columnheader', { name: 'vCPU' }).count()).to.equal(0)
    await views.click()
    await page.getByRole('button', { name: 'Running', exact: true, pressed: false }).click()
    await page.getByText('2 of 3', { exact: true }).waitFor()
    await page.getByRole('columnheader', { name: 'vCPU' }).waitFor()
    await page.locator('[aria-sort=descending]').filter({ hasText: 'Name' }).waitFor()
    await views.click()
    await page.getByRole('button', { name: 'Remove Running', exact: true }).click()
    await page.getByText('No saved views yet.', { exact: true }).waitFor()
    await page.keyboard.press('Escape')
    await page.getByText('Columns', { exact: true }).click()
    await page.getByRole('button', { name: 'Default columns', exact: true }).click()
    await page.keyboard.press('Escape')
    await status.selectOption('')
    await byName.click()
    await page.locator('[aria-sort=ascending]').filter({ hasText: 'Name' }).waitFor()
    await page.getByText('3 of 3', { exact: true }).waitFor()
  })

  it('assigns all selected guests to a customer', async () => {
    await page.getByLabel('Select all').check()
    const open = page.getByRole('region').getByRole('button', { name: 'Assign to customer', exact: true })
    const dialog = page.getByRole('dialog')
    const customer = dialog.locator('#assign-customer')
    const assign = dialog.getByRole('button', { name: 'Assign to customer', exact: true })
    await open.click()
    await dialog.getByRole('heading', { name: 'Assign 3 guests to a customer' }).waitFor()
    await customer.selectOption({ label: 'ada' })
    await dialog.getByRole('button', { name: 'Cancel', exact: true }).click()
    await dialog.waitFor({ state: 'detached' })
    await open.click()
    await customer.waitFor()
    expect(await customer.inputValue(), 'the earlier choice is forgotten').to.equal('')
    expect(await assign.isDisabled(), 'until a customer is selected').to.equal(true)
    await customer.selectOption({ label: 'ada' })
    await assign.click()
    await page.getByText('3 guests are now assigned to ada.', { exact: true }).waitFor()
    expect(await page.getByText('3 selected', { exact: true }).count()).to.equal(0)
    const { body } = await lab.gateway.request('GET', '/sub-users')
    expect(body.data[0].container_names).to.have.members(['shop-db', 'shop-web', 'blog'])
  })

  it('offers to stop a guest next to its alert', async () => {
    const agent = lab.gateway.fleet.agentOf('host-a')
    const { uuid } = await lab.gateway.fleet.addGuest({ name: 'attacker' })
    agent.host.sensor.scanPorts(agent.guests().find((guest) => guest.uuid === uuid)!.ipv4, '198.51.100.9', 1000)
    await lab.gateway.request('POST', '/security/check', { body: {} })
    await lab.show(page, '/security')
    await page.getByRole('button', { name: 'Stop attacker', exact: true }).click()
    await page.getByRole('dialog').getByRole('button', { name: 'Stop', exact: true }).click()
    const stop = page.getByRole('button', { name: 'Stop attacker', exact: true })
    await stop.waitFor({ state: 'detached' })
    const { body } = await lab.gateway.request('GET', '/containers/attacker')
    expect(body.data.status).to.match(/^stop/)
    await lab.gateway.request('DELETE', '/containers/attacker/delete')
    await lab.show(page, '/containers')
    await row('attacker').waitFor({ state: 'detached' })
  })

  it('exports the guests that match the filter', async () => {
    await page.locator('[data-search]').fill('shop')
    await page.getByText('2 of 3', { exact: true }).waitFor()
    const [file] = await Promise.all([
      page.waitForEvent('download'),
      page.getByRole('button', { name: 'Export CSV', exact: true }).click(),
    ])
    const lines = (await readFile(await file.path(), 'utf8')).split('\r\n').filter(Boolean)
    expect(lines[0]).to.match(/^\uFEFFid,uuid,name,/)
    expect(lines.slice(1).map((line) => line.split(',')[2])).to.have.members(['shop-db', 'shop-web'])
    await page.locator('[data-search]').fill('')
  })

  it('extends the expiry only of guests with an expiry, and takes snapshots only within the quota', async () => {
    const before = await expiryOf('blog')
    await page.getByText('3 of 3', { exact: true }).waitFor()
    await page.getByLabel('Select all').check()
    const [region, dialog] = [page.getByRole('region'), page.getByRole('dialog')]
    await region.getByRole('button', { name: 'Extend', exact: true }).click()
    await dialog.getByText('2 with an expiry will be extended.', { exact: true }).waitFor()
    await dialog.getByLabel('Days', { exact: true }).fill('31')
    await dialog.getByRole('button', { name: 'Extend 2', exact: true }).click()
    await dialog.waitFor({ state: 'detached' })
    const dayMs = 86_400_000
    await waitFor(async () => Date.parse(`${await expiryOf('blog')}Z`) - Date.parse(`${before}Z`) === 31 * dayMs, {
      what: 'extended',
    })
    expect(await expiryOf('shop-web')).to.equal('')
    await page.getByLabel('Select all').check()
    await region.getByRole('button', { name: 'Snapshot', exact: true }).click()
    await dialog.getByRole('button', { name: 'Snapshot 2', exact: true }).click()
    await waitFor(async () => ((await lab.gateway.request('GET', '/snapshots')).body.data as object[]).length === 2, {
      what: 'two snapshots',
    })
  })

  it('scrolls with the page on a phone', async () => {
    for (let at = 0; at < 60; at++) await lab.gateway.fleet.addGuest({ name: `many-${at}` })
    await page.setViewportSize({ width: 360, height: 740 })
    await lab.show(page, '/containers')
    await page.getByText('63 of 63', { exact: true }).waitFor()
    await page.evaluate('scrollTo(0, document.documentElement.scrollHeight)')
    await page.locator('.guest-row[aria-rowindex="64"]').waitFor()
    expect(await page.locator('.guest-row').count()).to.be.lessThan(40)
    expect(await page.evaluate('getComputedStyle(document.querySelector(".list-box")).overflowY')).to.equal('visible')
    await page.getByRole('button', { name: 'Filters', exact: true }).click()
    await page.getByLabel('Status', { exact: true }).selectOption('stopped')
    await page.getByText('1 of 63', { exact: true }).waitFor()
    await page.getByLabel('Status', { exact: true }).selectOption('')
    const first = page.locator('.guest-row[aria-rowindex="2"] .name')
    await page.getByLabel('Sort by', { exact: true }).selectOption({ label: 'Status' })
    await page.getByRole('button', { name: 'Descending order', exact: true }).click()
    await eventually(async () => expect(await first.innerText(), 'the only stopped guest').to.equal('blog'))
    await page.getByLabel('Sort by', { exact: true }).selectOption({ label: 'Name' })
    await eventually(async () => expect(await first.innerText()).to.equal('shop-web'))
  })

  it('fits all screens in both themes', async () => {
    const problems: string[] = []
    await page.reload() // without the notices of earlier tests, whose colours change while they fade
    await lab.loaded(page)
    for (const width of [360, 1280, 1920]) {
      await page.setViewportSize({ width, height: width === 360 ? 740 : 900 })
      await settled(page)
      if (await tooWide(page)) problems.push(`${width} is too wide`)
      await lab.picture(page, `guest-list-${width}-light`)
    }
    problems.push(...(await findingsOf(page)))
    await page.emulateMedia({ colorScheme: 'dark' })
    problems.push(...(await findingsOf(page, 'contrast')))
    await lab.picture(page, 'guest-list-1920-dark')
    expect(problems).to.deep.equal([])
  })
})
