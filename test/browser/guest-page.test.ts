import { expect } from 'chai'
import type { Page } from 'playwright-core'
import type { Guest } from '../../proto/gen/berth/agent/v1/guest.js'
import { eventually, waitFor } from '../support/wait.js'
import { findingsOf } from './page-checks.js'
import { PanelLab, type OpenOptions } from './panel-lab.js'

describe('the page of a guest in the panel', () => {
  let lab: PanelLab
  let page: Page
  before(async () => {
    lab = await PanelLab.start()
  })
  after(() => lab.close())
  afterEach(async () => {
    await page.context().close()
    lab.expectNoComplaints()
  })

  const rowOf = async ({ id }: Guest): Promise<Record<string, unknown>> =>
    (await lab.gateway.request('GET', `/containers/${id}`)).body.data as Record<string, unknown>
  async function open(guest: Guest, tab: string, options: OpenOptions = {}): Promise<void> {
    page = await lab.logIn(options)
    await lab.show(page, `/containers/${guest.id}/${tab}`)
  }
  const dialog = (name: string) => page.getByRole('dialog', { name, exact: true })

  it('keeps unsaved values while the user looks at another tab, and asks before the user leaves the page', async () => {
    const guest = await lab.gateway.fleet.addGuest({ name: 'half-typed' })
    await open(guest, 'settings')
    const disk = page.locator('#limit-disk_gb')
    const tab = (name: string) => page.locator('nav.tabs').getByRole('link', { name, exact: true })
    await disk.fill('77')
    await tab('Network').click()
    await page.getByRole('heading', { name: 'Firewall', exact: true }).waitFor()
    expect(await disk.isVisible()).to.equal(false)
    await tab('Settings').click()
    await disk.waitFor()
    expect(await disk.inputValue()).to.equal('77')

    const asks = () => page.evaluate("!dispatchEvent(new Event('beforeunload', { cancelable: true }))")
    expect(await asks(), 'the browser asks before it closes the page').to.equal(true)
    await page.getByRole('navigation').getByRole('link', { name: 'Hosts', exact: true }).click()
    await dialog('Leave without saving?').getByRole('button', { name: 'Cancel', exact: true }).click()
    await disk.waitFor()
    expect(await disk.inputValue()).to.equal('77')

    await page.getByRole('navigation').getByRole('link', { name: 'Hosts', exact: true }).click()
    await dialog('Leave without saving?').getByRole('button', { name: 'Leave', exact: true }).click()
    await page.getByRole('heading', { name: 'Hosts', level: 1, exact: true }).waitFor()
    await lab.show(page, `/containers/${guest.id}/settings`)
    await disk.fill('50')
    await page.locator('form').filter({ has: disk }).getByRole('button', { name: 'Save', exact: true }).click()
    await waitFor(async () => (await rowOf(guest))['disk_gb'] === 50, { what: 'saved' })
    await waitFor(async () => !(await asks()), { what: 'nothing is left to save' })
    await page.getByRole('navigation').getByRole('link', { name: 'Hosts', exact: true }).click()
    await page.getByRole('heading', { name: 'Hosts', level: 1, exact: true }).waitFor()
  })

  it('shows the name of its image, and offers to copy its UUID', async () => {
    const guest = await lab.gateway.fleet.addGuest({ name: 'described' })
    await open(guest, 'overview')
    const images = (await lab.gateway.request('GET', '/images/enabled')).body.data as { id: string; name: string }[]
    const { template, uuid } = await rowOf(guest)
    const name = images.find(({ id }) => id === template)?.name ?? ''
    expect(name).not.to.be.oneOf(['', template])
    await page.locator('#main-content').getByText(name, { exact: true }).waitFor()
    await page.getByText(String(uuid), { exact: true }).waitFor()
    await page.getByRole('button', { name: 'Copy the UUID', exact: true }).waitFor()
  })

  it('sets name, tags, note and protection, and shows all guests with a tag after a click on the tag', async () => {
    const guest = await lab.gateway.fleet.addGuest({ name: 'labelled' })
    await lab.gateway.fleet.addGuest({ name: 'plain' })
    await open(guest, 'settings')
    const save = page
      .locator('form')
      .filter({ has: page.locator('#label-tags') })
      .getByRole('button', { name: 'Save', exact: true })
    expect(await save.isDisabled(), 'nothing to save yet').to.equal(true)
    await page.locator('#label-tags').fill('Web')
    await save.click()
    await page.getByRole('alert').filter({ hasText: 'tags' }).waitFor()
    await page.locator('#label-tags').fill('web customer-42')
    await page.locator('#label-name').fill('relabelled')
    await page.locator('#label-note').fill('Paid until May.')
    await page.locator('#label-protected').check()
    await save.click()
    const main = page.locator('#main-content')
    await main.getByRole('heading', { name: 'relabelled' }).waitFor()
    await main.getByRole('img', { name: 'Protected against deletion', exact: true }).waitFor()
    expect(await rowOf(guest)).to.deep.include({
      name: 'relabelled',
      tags: ['customer-42', 'web'],
      note: 'Paid until May.',
      delete_protected: true,
    })
    await eventually(async () => expect(await save.isDisabled(), 'everything is saved').to.equal(true))
    await page.getByText('Saved', { exact: true }).waitFor({ state: 'hidden' })
    expect(await findingsOf(page)).to.deep.equal([])
    await page.locator('#limit-disk_gb').fill('1')
    await page
      .locator('form')
      .filter({ has: page.locator('#limit-disk_gb') })
      .getByRole('button', { name: 'Save', exact: true })
      .click()
    await page.locator('#limit-disk_gb-error').filter({ hasText: 'A disk cannot shrink.' }).waitFor()
    await page.locator('#limit-disk_gb').fill('20')
    await main.getByRole('link', { name: 'web', exact: true }).click()
    await dialog('Leave without saving?').getByRole('button', { name: 'Leave', exact: true }).click()
    await main.getByRole('link', { name: 'relabelled', exact: true }).waitFor()
    await waitFor(async () => (await main.getByRole('link', { name: 'plain', exact: true }).count()) === 0)
    expect(await main.getByLabel('Tags', { exact: true }).inputValue()).to.equal('web')
  })

  it('shows the rescue mode, and can filter the timeline', async () => {
    const guest = await lab.gateway.fleet.addGuest({ name: 'rescued', boot: { mode: 'rescue', image: '' } })
    await lab.gateway.request('PATCH', `/containers/${guest.id}`, { body: { tags: ['seen'] } })
    await open(guest, 'activity')
    const main = page.locator('#main-content')
    await main.getByRole('button', { name: 'Back to the disk', exact: true }).click()
    await page.getByRole('dialog').getByRole('button', { name: 'Restart now', exact: true }).waitFor()
    expect(await page.getByRole('dialog').innerText(), 'containers have no CD').not.to.include('CD')
    await page.getByRole('dialog').getByRole('button', { name: 'Cancel', exact: true }).click()
    const entries = main.locator('li.entry')
    await entries.filter({ hasText: 'Name, tags, note or protection changed' }).first().waitFor()
    const filter = main.getByRole('group', { name: 'Filter', exact: true }).getByRole('button', { name: 'Changes' })
    await filter.click()
    await waitFor(async () => (await filter.getAttribute('aria-pressed')) === 'true', { what: 'the filter' })
    await entries.filter({ hasText: 'Name, tags, note or protection changed' }).first().waitFor()
  })

  it('changes a port mapping to a range, and warns of a firewall that drops SSH', async () => {
    const guest = await lab.gateway.fleet.addGuest({ name: 'mapped' })
    const body = { container_port: 8000, description: 'web' }
    const mapped = await lab.gateway.request('POST', `/containers/${guest.id}/port-mappings`, { body })
    const port = (mapped.body.data as { host_port: number }[]).at(-1)!.host_port
    await open(guest, 'network')
    await page.getByRole('button', { name: `Edit TCP ${port}`, exact: true }).click()
    const edit = dialog('Edit the port')
    await edit.locator('#map-count').fill('3')
    await edit.locator('#map-note').fill('three ports')
    await edit.getByRole('button', { name: 'Save', exact: true }).click()
    await page.getByRole('button', { name: `Edit TCP ${port}–${port + 2}`, exact: true }).waitFor()
    expect((await rowOf(guest))['port_mappings']).to.deep.include({
      protocol: 'tcp',
      container_port: 8000,
      container_port_end: 8002,
      host_port: port,
      host_port_end: port + 2,
      description: 'three ports',
    })
    const firewall = page
      .locator('section')
      .filter({ has: page.getByRole('heading', { name: 'Firewall', exact: true }) })
    await firewall.getByLabel('Use a preset', { exact: true }).selectOption({ label: 'No incoming connections' })
    await firewall.getByRole('button', { name: 'Allow SSH', exact: true }).click()
    await firewall.getByText('This firewall drops all SSH connections', { exact: false }).waitFor({ state: 'detached' })
    await firewall.getByRole('button', { name: 'Save', exact: true }).click()
    await page.getByText('Saved', { exact: true }).waitFor()
    const { body: saved } = await lab.gateway.request('GET', `/containers/${guest.id}/firewall`)
    expect((saved.data as { rules: object[] }).rules[0]).to.include({ action: 'ACCEPT', port: '22' })
  })

  it('moves rules of the firewall up and down with the keyboard', async () => {
    const guest = await lab.gateway.fleet.addGuest({ name: 'ordered' })
    const rule = { direction: 'in', protocol: 'tcp', action: 'ACCEPT', network: 'all', source_ip: '' }
    const rules = ['22', '80', '443'].map((port) => ({ ...rule, port, description: '' }))
    const path = `/containers/${guest.id}/firewall`
    const sent = await lab.gateway.request('PUT', path, { body: { enabled: true, default_action: 'DROP', rules } })
    expect(sent.status, sent.text).to.equal(200)
    await open(guest, 'network')
    const move = (rank: number, way: 'up' | 'down') =>
      page.getByRole('button', { name: `Move rule ${rank} ${way}`, exact: true })
    const hasFocus = (name: string) =>
      eventually(async () =>
        expect(await page.evaluate<string>("document.activeElement.getAttribute('aria-label')")).to.equal(name),
      )
    expect([await move(1, 'up').isEnabled(), await move(3, 'down').isEnabled()]).to.deep.equal([false, false])
    await move(3, 'up').focus()
    await page.keyboard.press('Enter')
    await hasFocus('Move rule 2 up')
    await page.keyboard.press('Enter')
    await hasFocus('Move rule 1 down')
    expect(await findingsOf(page)).to.deep.equal([])
    await lab.picture(page, 'firewall-order-wide')
    await page
      .locator('section')
      .filter({ has: page.getByRole('heading', { name: 'Firewall', exact: true }) })
      .getByRole('button', { name: 'Save', exact: true })
      .click()
    await eventually(async () => {
      const { data } = (await lab.gateway.request('GET', path)).body
      expect((data.rules as { port: string }[]).map(({ port }) => port)).to.deep.equal(['443', '22', '80'])
    })
  })

  it('explains how to lift the protection instead of deleting a protected guest', async () => {
    const guest = await lab.gateway.fleet.addGuest({ name: 'keeper' })
    await lab.gateway.request('PATCH', `/containers/${guest.id}`, { body: { delete_protected: true } })
    await open(guest, 'settings', { language: 'zh' })
    await page.getByRole('button', { name: '删除', exact: true }).last().click()
    const blocked = dialog('keeper 受到保护')
    await blocked.getByText('请先在其设置中关闭').waitFor()
    await blocked.getByRole('link', { name: '打开设置', exact: true }).click()
    await blocked.waitFor({ state: 'hidden' })
    await page.locator('#label-protected').uncheck()
    await page
      .locator('form')
      .filter({ has: page.locator('#label-tags') })
      .getByRole('button', { name: '保存', exact: true })
      .click()
    await waitFor(async () => (await rowOf(guest))['delete_protected'] === false)
  })

  it('explains its status, like the warnings of its host, in the language of the page', async () => {
    const { fleet } = lab.gateway
    const guest = await fleet.addGuest({ name: 'halted', status: 'stopped' })
    fleet.agentOf('host-a').update(guest.uuid, { statusReason: 'shut down from inside' })
    await fleet.caughtUp('host-a')
    await fleet.warn('host-a', 'port mappings use 192.0.2.9 (host_ip), which the host does not have')
    await open(guest, 'overview', { language: 'zh' })
    await page.getByText('实例已从内部关机。', { exact: true }).waitFor()
    await lab.show(page, '/hosts/host-a')
    await page.getByText('端口映射使用了主机没有的地址 192.0.2.9。', { exact: true }).waitFor()
    await lab.show(page, '/')
    const warning = page.getByRole('listitem').filter({ hasText: '端口映射使用了主机没有的地址 192.0.2.9。' })
    await warning.getByRole('button', { name: /^隐藏: / }).click()
    await warning.waitFor({ state: 'detached' })
    await page.reload()
    await page.getByRole('button', { name: '显示 1 条已隐藏的警告', exact: true }).click()
    await warning.waitFor()
    await fleet.warn('host-a')
  })

  it('restores a deleted guest from the list of deleted guests', async () => {
    await lab.gateway.fleet.work('host-a')
    await lab.gateway.request('PUT', '/deletion-settings', { body: { undo_delete_hours: 24 } })
    const guest = await lab.gateway.fleet.addGuest({ name: 'fetched-back' })
    await open(guest, 'settings')
    await page.getByRole('button', { name: 'Delete', exact: true }).last().click()
    const confirm = dialog('Delete fetched-back?')
    await confirm.getByText('You can undo this for 24 hours', { exact: false }).waitFor()
    await confirm.locator('#confirm-typed').fill('fetched-back')
    await confirm.getByRole('button', { name: 'Delete', exact: true }).click()
    const deleted = page.locator('.card').filter({ hasText: 'Deleted guests' })
    await deleted.getByRole('link', { name: 'fetched-back', exact: true }).click()
    await page.getByRole('button', { name: 'Undo', exact: true }).click()
    await page.getByRole('button', { name: 'Undo', exact: true }).waitFor({ state: 'detached' })
    await waitFor(async () => (await rowOf(guest))['status'] === 'running')
    await lab.gateway.request('PUT', '/deletion-settings', { body: { undo_delete_hours: 0 } })
  })
})
