import { expect } from 'chai'
import type { Locator, Page } from 'playwright-core'
import type { Guest } from '../../proto/gen/berth/agent/v1/guest.js'
import type { Body } from '../support/body.js'
import { eventually, waitFor } from '../support/wait.js'
import { findingsOf, latinSentences, tooWide } from './page-checks.js'
import { PanelLab, type OpenOptions } from './panel-lab.js'

const action = 'Move to another host'

describe('the dialog for a move in the panel', () => {
  let lab: PanelLab
  let page: Page
  before(async () => {
    lab = await PanelLab.start({ hosts: ['host-a', 'host-b'] })
    for (const hostId of ['host-a', 'host-b']) await lab.gateway.fleet.work(hostId)
    await changeTarget({ public_address: '192.0.2.11' })
  })
  after(() => lab.close())
  afterEach(async () => {
    await page.context().close()
    await changeTarget({ draining: false })
    lab.expectNoComplaints()
  })

  async function changeTarget(body: { public_address?: string; draining?: boolean; group?: string }): Promise<void> {
    expect((await lab.gateway.request('PATCH', '/hosts/host-b', { body })).status).to.equal(200)
  }
  const hostOf = async ({ id }: Guest): Promise<unknown> =>
    (await lab.gateway.request('GET', `/containers/${id}`)).body.data.host_id

  /** Adds a guest to the target host, with the same mapped host port as the guest that will be moved. */
  async function takePort({ uuid }: Guest): Promise<void> {
    const { fleet } = lab.gateway
    const { portMappings } = fleet.agentOf('host-a').journal((store) => store.get(uuid))
    await fleet.addGuest({ portMappings }, 'host-b')
  }

  async function openActions({ id, name }: Guest, options: OpenOptions = {}): Promise<void> {
    page = await lab.logIn(options)
    await lab.show(page, `/containers/${id}`)
    await page.locator('#main-content').getByRole('button', { name }).click()
    await page.getByRole('menuitem').first().waitFor()
  }

  /** Opens the first dialog of a move. */
  async function openForm(guest: Guest): Promise<Locator> {
    await openActions(guest)
    await page.getByRole('menuitem', { name: action, exact: true }).click()
    const form = dialogNamed(`Move ${guest.name} to another host`)
    await form.waitFor()
    return form
  }
  const dialogNamed = (name: string): Locator => page.getByRole('dialog', { name, exact: true })

  /** Checks the move to a host that the gateway chooses. @returns the dialog that shows the result */
  async function check(guest: Guest): Promise<Locator> {
    const form = await openForm(guest)
    await form.getByRole('button', { name: 'Check the move' }).click()
    return dialogNamed(`Move ${guest.name} to host-b?`)
  }

  async function cellsOf(dialog: Locator, label: string): Promise<string[]> {
    const row = dialog.getByRole('row').filter({ hasText: label })
    await row.waitFor()
    return row.getByRole('cell').allInnerTexts()
  }

  /** Adds a guest with a snapshot. Its next snapshot, which a move takes, does not end until `release` is called. */
  async function addHeld(name: string): Promise<{ guest: Guest; release: () => void }> {
    const { host } = lab.gateway.fleet.agentOf('host-a')
    const guest = await lab.gateway.fleet.addGuest({ name })
    host.contents.set(guest.uuid, 'x'.repeat(700_000))
    expect((await lab.gateway.request('POST', `/containers/${guest.id}/snapshots`, { body: {} })).status).to.equal(201)
    let release: () => void = () => undefined
    const released = new Promise<void>((resolve) => (release = resolve))
    host.faults.snapshot = () => released
    return { guest, release }
  }

  it('shows old and new addresses and ports before the confirmation, and then the task with its progress', async () => {
    const { guest, release } = await addHeld('mover')
    try {
      const form = await openForm(guest)
      const targets = form.locator('#move-target option')
      await eventually(async () =>
        expect(await targets.allInnerTexts()).to.deep.equal(['Automatic (most free resources)', 'host-b']),
      )
      await form.locator('#move-target').selectOption('host-b')
      await form.locator('#move-bandwidth').fill('100')
      expect(await findingsOf(page)).to.deep.equal([])
      await lab.picture(page, 'move-wide')
      const sent = page.waitForRequest('**/migrate')
      await form.getByRole('button', { name: 'Check the move' }).click()
      const choice = { host_id: 'host-b', bandwidth_mbps: 100 }
      expect((await sent).postDataJSON()).to.deep.equal({ ...choice, dry_run: true })

      const plan = dialogNamed('Move mover to host-b?')
      const port = String(guest.portMappings[0]!.hostPort)
      expect((await cellsOf(plan, 'Public port for TCP 22')).slice(1)).to.deep.equal([port, port, 'Same'])
      expect((await cellsOf(plan, 'Public address of the host')).slice(1)).to.deep.equal([
        '192.0.2.10',
        '192.0.2.11',
        'Changes',
      ])
      expect(await plan.innerText())
        .to.include('customers reach the guest at other addresses or ports')
        .and.not.include('The agent of one host is too old')
      expect(await findingsOf(page)).to.deep.equal([])
      await lab.picture(page, 'move-plan-wide')
      expect(await hostOf(guest), 'after the check').to.equal('host-a')

      const ordered = page.waitForRequest('**/migrate')
      await plan.getByRole('button', { name: 'Move', exact: true }).click()
      expect((await ordered).postDataJSON()).to.deep.equal(choice)
      await page.getByText('mover is moving to host-b.').waitFor()
      await plan.waitFor({ state: 'detached' })
      await page.getByRole('button', { name: 'Show tasks' }).click()
      const task = page.locator('.drawer li').filter({ hasText: `${action} · mover` })
      await task.getByText(/^Copying · \d+ MiB, [\d.]+ MiB\/s/).waitFor()
      await eventually(async () =>
        expect(Number(await task.getByRole('progressbar').getAttribute('aria-valuenow'))).to.be.greaterThan(0),
      )
      await lab.picture(page, 'move-task-wide')
      release()
      await task.getByText('Done', { exact: true }).waitFor()
    } finally {
      release()
    }
    await waitFor(async () => (await hostOf(guest)) === 'host-b', { what: 'the guest on its new host' })
    await lab.show(page, `/containers/${guest.id}`)
    await page.locator('#main-content').getByRole('link', { name: 'host-b' }).waitFor()
  })

  it('is offered on the page of hosts if the guest’s host breaks the changed placement rules', async () => {
    const guest = await lab.gateway.fleet.addGuest({ name: 'misplaced' })
    await changeTarget({ group: 'eu' })
    page = await lab.logIn()
    await lab.show(page, `/containers/${guest.id}/settings`)
    const card = page.locator('form').filter({ has: page.locator('#placement-group') })
    await card.locator('#placement-group').fill('EU ?')
    await card.getByRole('button', { name: 'Save', exact: true }).click()
    await card.getByRole('alert').waitFor()
    await card.locator('#placement-group').fill('eu')
    await card.getByRole('button', { name: 'Save', exact: true }).click()
    await page.getByText('Saved', { exact: true }).waitFor()
    await lab.show(page, '/hosts')
    await page.getByRole('button', { name: 'Move misplaced', exact: true }).click()
    const confirm = dialogNamed('Move misplaced to host-b?')
    await confirm.getByRole('button', { name: 'Move', exact: true }).click()
    await waitFor(async () => (await hostOf(guest)) === 'host-b', { what: 'the guest on the host of its group' })
    await changeTarget({ group: '' })
  })

  it('shows why the check refused the move, and keeps the form filled', async () => {
    await changeTarget({ draining: true })
    const form = await openForm(await lab.gateway.fleet.addGuest({ name: 'refused' }))
    const option = form.getByRole('option', { name: 'host-b · Draining' })
    await waitFor(() => option.isDisabled(), { what: 'the draining host cannot be chosen' })
    await form.locator('#move-bandwidth').fill('7')
    await form.getByRole('button', { name: 'Check the move' }).click()
    await form.getByRole('alert').filter({ hasText: 'the host is draining and accepts no new containers' }).waitFor()
    expect(await form.locator('#move-bandwidth').inputValue()).to.equal('7')
  })

  it('shows why the move was refused after the check, and lets the user choose another host', async () => {
    const guest = await lab.gateway.fleet.addGuest({ name: 'delayed' })
    const plan = await check(guest)
    await changeTarget({ draining: true })
    await plan.getByRole('button', { name: 'Move', exact: true }).click()
    await plan.getByRole('alert').filter({ hasText: 'the host is draining' }).waitFor()
    expect(await hostOf(guest)).to.equal('host-a')
    await plan.getByRole('button', { name: 'Choose another host' }).click()
    await dialogNamed('Move delayed to another host').waitFor()
    await plan.waitFor({ state: 'detached' })
  })

  it('shows the actually reserved port if another guest took the planned port after the check', async () => {
    const guest = await lab.gateway.fleet.addGuest({ name: 'raced' })
    const plan = await check(guest)
    const label = 'Public port for TCP 22'
    const port = guest.portMappings[0]!.hostPort
    expect((await cellsOf(plan, label)).slice(1)).to.deep.equal([String(port), String(port), 'Same'])
    await takePort(guest)
    await plan.getByRole('button', { name: 'Move', exact: true }).click()
    const [, before, after, result] = await cellsOf(dialogNamed('Reserved addresses and ports of raced'), label)
    expect([before, result]).to.deep.equal([String(port), 'Changes'])
    await waitFor(async () => (await hostOf(guest)) === 'host-b', { what: 'the guest on its new host' })
    const { body } = await lab.gateway.request('GET', `/containers/${guest.id}`)
    expect(String(body.data.port_mappings[0].host_port)).to.equal(after)
  })

  it('shows that a virtual machine cannot move while it runs, and can then move it with a shutdown', async () => {
    await lab.gateway.fleet.runMachines('host-a', 'host-b')
    const guest = await lab.gateway.fleet.addGuest({ name: 'machine', virtualization: 'kvm' })
    lab.gateway.fleet.agentOf('host-a').host.contents.set(guest.uuid, 'disk of machine')
    const form = await openForm(guest)
    await form.getByText('The virtual machine keeps running').waitFor()
    const pause = form.getByLabel('Pause for the rest of the memory (ms)')
    await pause.fill('2000')
    const checked = page.waitForRequest('**/migrate')
    await form.getByRole('button', { name: 'Check the move' }).click()
    expect((await checked).postDataJSON()).to.include({ max_downtime_ms: 2000 })
    await form.getByText('the virtual machine cannot move while it runs').waitFor()
    await form.getByRole('checkbox').check()
    await pause.waitFor({ state: 'detached' })
    await form.getByText('The guest is shut down during the move.').waitFor()
    await form.getByRole('button', { name: 'Check the move' }).click()
    const plan = dialogNamed('Move machine to host-b?')
    await plan.getByText('The guest is shut down until its disk has been copied.').waitFor()
    const ordered = page.waitForRequest('**/migrate')
    await plan.getByRole('button', { name: 'Move', exact: true }).click()
    expect((await ordered).postDataJSON()).to.include({ host_id: 'host-b', offline: true })
    await waitFor(async () => (await hostOf(guest)) === 'host-b', { what: 'the virtual machine on its new host' })
  })

  it('sets a warm standby, shows the age of its copy, and removes it', async () => {
    const guest = await lab.gateway.fleet.addGuest({ name: 'standing' })
    const readStandby = async (): Promise<Body> =>
      (await lab.gateway.request('GET', `/containers/${guest.id}/standby`)).body.data
    const openCard = async (options: OpenOptions): Promise<Locator> => {
      page = await lab.logIn(options)
      await lab.show(page, `/containers/${guest.id}/settings`)
      return page.locator('section.card').filter({ has: page.locator('#standby-host') })
    }
    const card = await openCard({})
    await eventually(async () =>
      expect(await card.locator('#standby-host option').allInnerTexts()).to.deep.equal(['', 'host-b']),
    )
    expect(await card.locator('#standby-interval').inputValue()).to.equal('5')
    await card.locator('#standby-host').selectOption('host-b')
    await card.locator('#standby-interval').fill('7')
    await card.getByRole('button', { name: 'Save', exact: true }).click()
    await page.getByText('Saved', { exact: true }).waitFor()
    expect(await readStandby()).to.include({ host_id: 'host-b', interval_minutes: 7, bandwidth_mbps: 0 })
    await waitFor(async () => (await readStandby())['age_seconds'] >= 0, { what: 'the first complete copy' })
    await page.reload()
    await card.getByText('State of the copy:').waitFor()
    expect(await card.locator('#standby-interval').inputValue()).to.equal('7')
    expect(await findingsOf(page)).to.deep.equal([])
    await lab.picture(page, 'standby-wide')
    await page.context().close()

    const translated = await openCard({ language: 'zh', screen: 'phone', theme: 'dark' })
    await translated.getByText('副本的时间：').waitFor()
    expect(latinSentences(await translated.innerText())).to.deep.equal([])
    expect(await tooWide(page)).to.equal(false)
    expect(await findingsOf(page)).to.deep.equal([])
    await lab.picture(page, 'standby-phone-zh')
    await translated.getByRole('button', { name: '删除副本', exact: true }).click()
    await dialogNamed('删除热备份副本？').getByRole('button', { name: '删除副本', exact: true }).click()
    await translated.getByRole('button', { name: '删除副本', exact: true }).waitFor({ state: 'detached' })
    expect(await translated.locator('#standby-host').inputValue()).to.equal('')
    expect(await readStandby()).to.include({ host_id: '', age_seconds: -1 })
  })

  it('is not offered if there is only one host', async () => {
    const offered = (): Promise<number> => page.getByRole('menuitem', { name: action }).count()
    const { id } = await lab.gateway.fleet.addGuest({ name: 'single' })
    page = await lab.logIn()
    await page.route('**/api/v1/hosts', async (route) => {
      const response = await route.fetch()
      const { data, ...rest } = (await response.json()) as { data: unknown[] }
      await route.fulfill({ response, json: { ...rest, data: data.slice(0, 1) } })
    })
    const read = page.waitForResponse('**/api/v1/hosts')
    await page.reload()
    await (await read).finished()
    await lab.show(page, `/containers/${id}`)
    await page.getByRole('button', { name: 'Actions for single', exact: true }).click()
    await page.getByRole('menuitem', { name: 'Delete', exact: true }).waitFor()
    expect(await offered(), 'only host').to.equal(0)
  })

  it('is accessible, translated into Chinese, and fits the screen of a phone', async () => {
    const guest = await lab.gateway.fleet.addGuest({ name: 'phoned' })
    await takePort(guest)
    await openActions(guest, { language: 'zh', screen: 'phone', theme: 'dark' })
    await page.getByRole('menuitem', { name: '迁移到其他主机' }).click()
    await page.locator('#move-target').waitFor()
    const expectFine = async (): Promise<void> => {
      expect(await findingsOf(page)).to.deep.equal([])
      expect(await tooWide(page)).to.equal(false)
      expect(latinSentences(await page.getByRole('dialog').innerText())).to.deep.equal([])
    }
    await expectFine()
    await page.getByRole('button', { name: '检查迁移' }).click()
    const plan = dialogNamed('将 phoned 迁移到 host-b？')
    await plan.waitFor()
    const [, before, after, result] = await cellsOf(plan, 'TCP 22 的公网端口')
    expect([before, result]).to.deep.equal([String(guest.portMappings[0]!.hostPort), '有变化'])
    expect(after).to.match(/^\d+$/).and.not.to.equal(before)
    await lab.picture(page, 'move-plan-phone-zh')
    await expectFine()
  })
})
