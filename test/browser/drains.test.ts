import { expect } from 'chai'
import type { Page } from 'playwright-core'
import { BerthError } from '../../shared/errors.js'
import { eventually } from '../support/wait.js'
import { findingsOf, tooWide } from './page-checks.js'
import { PanelLab, screens } from './panel-lab.js'

const hosts = ['host-a', 'host-b'] as const

describe('the drain of a host in the panel', () => {
  let lab: PanelLab
  let page: Page
  before(async () => {
    lab = await PanelLab.start({ hosts })
    for (const id of hosts) await lab.gateway.fleet.work(id)
    for (const name of ['first', 'second']) {
      const { uuid } = await lab.gateway.fleet.addGuest({ name })
      lab.gateway.fleet.agentOf('host-a').host.contents.set(uuid, `disk of ${name}`)
    }
    await lab.gateway.fleet.addGuest({ name: 'machine', virtualization: 'kvm' })
  })
  after(() => lab.close())
  afterEach(async () => {
    await page.context().close()
    lab.expectNoComplaints()
  })

  it('shows its plan, moves the guests after a confirmation, and can return them to the host', async () => {
    page = await lab.logIn()
    await lab.show(page, '/hosts/host-a')
    await page.getByRole('button', { name: 'Empty host', exact: true }).click()
    await page.getByRole('button', { name: 'Show the plan' }).click()
    const plan = page.getByRole('dialog', { name: 'Move all guests of host-a?' })
    await plan.getByText('1 guest cannot be moved and stays on this host.').waitFor()
    await plan.getByText('the virtual machine cannot move while it runs', { exact: false }).waitFor()
    await lab.picture(page, 'drain-plan-wide')
    await plan.getByRole('button', { name: 'Move all guests', exact: true }).click()
    await page.getByText('Complete: 2 of 3 guests done.').waitFor()
    await lab.picture(page, 'drain-wide')
    const hostOfFirst = () => lab.gateway.fleet.view.findGuest('first')?.hostId
    await eventually(() => expect(hostOfFirst()).to.equal('host-b'))
    await page.getByRole('button', { name: 'Bring guests back' }).click()
    await page.getByRole('heading', { name: 'Guests return to this host', exact: true }).waitFor()
    await page.getByText('Complete: 2 of 3 guests done.').waitFor()
    await eventually(() => expect(hostOfFirst()).to.equal('host-a'))
  })

  it('shows why a guest was not moved', async () => {
    lab.gateway.fleet.agentOf('host-a').observer = ({ step, phase }) => {
      if (step === 'copy' && phase === 'before-run')
        throw new BerthError('unavailable', 'target_unreachable', 'a fault of the test')
    }
    page = await lab.logIn()
    await lab.gateway.request('POST', '/hosts/host-a/drain')
    await lab.show(page, '/hosts/host-a')
    await page.getByText('a fault of the test').first().waitFor()
    await page.getByText('Complete: 0 of 3 guests done.').waitFor()
    await page.getByRole('button', { name: 'Resume' }).waitFor()
  })

  it('can be announced as maintenance, which the pages of guests show until the maintenance is canceled', async () => {
    page = await lab.logIn()
    await lab.show(page, '/hosts')
    await page.getByRole('button', { name: 'Announce maintenance', exact: true }).click()
    const dialog = page.getByRole('dialog', { name: 'Announce maintenance', exact: true })
    const localAt = (hours: number): string => new Date(Date.now() + hours * 3_600_000).toISOString().slice(0, 16)
    await dialog.getByLabel('Hosts', { exact: true }).selectOption('host-a')
    await dialog.getByLabel('Start', { exact: true }).fill(localAt(30))
    await dialog.getByLabel('End', { exact: true }).fill(localAt(32))
    await dialog.getByLabel('Text for customers', { exact: true }).fill('We replace a disk.')
    await dialog.getByRole('button', { name: 'Announce maintenance', exact: true }).click()
    const card = page.getByRole('region', { name: 'Maintenance', exact: true })
    await card.getByText('We replace a disk.', { exact: true }).waitFor()
    expect(await findingsOf(page)).to.deep.equal([])
    await lab.show(page, `/containers/${lab.gateway.fleet.view.findGuest('machine')!.guest.id}`)
    const banner = page.getByRole('status').filter({ hasText: 'Planned maintenance starts' })
    await banner.getByText('We replace a disk.', { exact: true }).waitFor()
    const { body } = await lab.gateway.request('GET', '/maintenance')
    await lab.gateway.request('POST', `/maintenance/${body.data[0].id}/cancel`)
    await banner.waitFor({ state: 'detached' })
  })

  it('is accessible, translated into Chinese, and fits the screen of a phone', async () => {
    page = await lab.logIn({ language: 'zh', screen: 'phone' })
    await lab.show(page, '/hosts/host-a')
    await page.getByRole('heading', { name: '实例正在离开本主机', exact: true }).waitFor()
    expect(await tooWide(page)).to.equal(false)
    expect(await findingsOf(page)).to.deep.equal([])
  })
})

describe('a guest with a backup in the panel', () => {
  let lab: PanelLab
  let page: Page
  before(async () => {
    lab = await PanelLab.start({ hosts })
    const { fleet } = lab.gateway
    for (const id of hosts) await fleet.work(id)
    const saved = await fleet.addGuest({ name: 'saved' })
    await fleet.addGuest({ name: 'unsaved' })
    fleet.agentOf('host-a').host.contents.set(saved.uuid, 'disk of saved')
    const body = { name: 'disk', type: 'local', path: '/srv/backups', encryption_password: 'a-password-of-it' }
    const target = await lab.gateway.request('POST', '/backup-targets', { body })
    expect(target.status, target.text).to.equal(201)
    const { body: asked } = await lab.gateway.request('POST', `/containers/${saved.id}/backups`)
    const taskId = asked.data.task_id as string
    await eventually(() => expect(fleet.view.findOperation(taskId)?.operation.status).to.equal('done'))
    page = await lab.logIn()
    lab.forgetComplaints()
  })
  after(() => lab.close())
  afterEach(() => lab.expectNoComplaints())

  it('can be restored as a new guest on a chosen host', async () => {
    await lab.show(page, '/backups')
    await page.getByRole('button', { name: 'Restore as a new guest', exact: true }).click()
    const dialog = page.getByRole('dialog', { name: 'Restore as a new guest', exact: true })
    const create = dialog.getByRole('button', { name: 'Create guest', exact: true })
    expect(await create.isDisabled(), 'a name is required').to.equal(true)
    await dialog.locator('#as-new-name').fill('copy')
    await dialog.locator('#as-new-host').selectOption('host-b')
    expect(await findingsOf(page)).to.deep.equal([])
    await create.click()
    await page.getByRole('dialog', { name: 'copy is being created', exact: true }).waitFor()
    await eventually(() => expect(lab.gateway.fleet.view.findGuest('copy')?.hostId).to.equal('host-b'))
    await page.keyboard.press('Escape')
  })

  it('has its schedules in the list of all schedules, which can be sorted and filtered', async () => {
    for (const kind of ['backups', 'snapshots']) {
      const body = { enabled: true, interval_hours: 6, time: '03:30' }
      const set = await lab.gateway.request('POST', `/containers/saved/${kind}/schedule`, { body })
      expect(set.status, set.text).to.equal(200)
    }
    await lab.show(page, '/schedules')
    const kinds = (): Promise<string[]> => page.locator('tbody td[data-label=Kind]').allInnerTexts()
    await eventually(async () => expect(await kinds()).to.have.length(2))
    await page.getByText('Every 6 hours from 03:30', { exact: true }).first().waitFor()
    const head = page.getByRole('columnheader', { name: 'Kind' })
    await head.getByRole('button').click()
    await eventually(async () => expect(await kinds()).to.deep.equal(['Backup', 'Snapshot']))
    await head.getByRole('button').click()
    await eventually(async () => expect(await kinds()).to.deep.equal(['Snapshot', 'Backup']))
    expect(await head.getAttribute('aria-sort')).to.equal('descending')
    await page.getByLabel('Result', { exact: true }).selectOption('failed')
    await page.getByText('No schedules match.', { exact: true }).waitFor()
    await page.getByLabel('Result', { exact: true }).selectOption('never')
    await eventually(async () => expect(await kinds()).to.have.length(2))
    await page.setViewportSize(screens.phone)
    await page.getByLabel('Sort by', { exact: true }).selectOption({ label: 'Kind' })
    await eventually(async () => expect(await kinds()).to.deep.equal(['Snapshot', 'Backup']))
    await page.getByRole('button', { name: 'Descending order', exact: true }).click()
    await eventually(async () => expect(await kinds()).to.deep.equal(['Backup', 'Snapshot']))
    expect(await findingsOf(page)).to.deep.equal([])
    await page.setViewportSize(screens.wide)
  })

  it('is in the plan of an evacuation, which begins only after the name of the host was typed', async () => {
    await lab.gateway.fleet.setHostState('host-a', 'offline')
    await lab.show(page, '/hosts/host-a')
    await page.getByRole('button', { name: 'Restore guests elsewhere', exact: true }).click()
    const dialog = page.getByRole('dialog', { name: 'Restore the guests of host-a on other hosts?', exact: true })
    await dialog.getByText('1 guest cannot be restored.', { exact: true }).waitFor()
    await dialog.getByRole('row').filter({ hasText: 'unsaved' }).getByText('–', { exact: true }).first().waitFor()
    expect(await findingsOf(page)).to.deep.equal([])
    const begin = dialog.getByRole('button', { name: 'Restore guests', exact: true })
    await dialog.locator('#confirm-typed').fill('host-b')
    expect(await begin.isDisabled(), 'another name is refused').to.equal(true)
    await dialog.locator('#confirm-typed').fill('host-a')
    await begin.click()
    await page.getByRole('heading', { name: 'Guests are restored on other hosts', exact: true }).waitFor()
    await eventually(() => expect(lab.gateway.fleet.view.findGuest('saved')?.hostId).to.equal('host-b'))
  })
})
