import { expect } from 'chai'
import type { Page } from 'playwright-core'
import { openLab, type PanelLab } from './panel-lab.js'
import { eventually, waitFor } from '../support/wait.js'

describe('several selected guests in the panel', function () {
  let lab: PanelLab
  let page: Page

  before(async () => {
    lab = await openLab()
    await lab.gateway.fleet.work('host-a')
    page = await lab.logIn()
  })
  after(() => page.context().close())

  const list = async (prefix: string): Promise<{ name: string; uuid: string; status: string }[]> => {
    const { body } = await lab.gateway.request('GET', '/containers')
    const rows = body.data as { name: string; uuid: string; status: string }[]
    return rows.filter(({ name }) => name.startsWith(prefix))
  }
  async function choose(prefix: string, count: number): Promise<void> {
    await lab.show(page, `/containers?text=${prefix}`)
    await page.getByText(new RegExp(`^${count} of \\d+$`)).waitFor()
    await page.getByLabel('Select all').check()
  }
  const region = () => page.getByRole('region')

  it('are started if they do not run yet, and guests whose start fails are shown and stay selected', async () => {
    const { fleet } = lab.gateway
    for (let at = 0; at < 50; at++)
      await fleet.addGuest({ name: `fifty-${at}`, status: at < 30 ? 'stopped' : 'running' })
    const failing = (await list('fifty-7')).find(({ name }) => name === 'fifty-7')
    const block = (expired: boolean): void =>
      // The agent derives the policy state from the expiry, so it would undo a change of only the policy state.
      fleet.agentOf('host-a').update(failing!.uuid, {
        expiresAtMs: expired ? 1 : 0,
        policy: { expired, overQuota: false },
      })
    block(true)
    await fleet.caughtUp('host-a')
    await choose('fifty-', 50)
    await region().getByRole('button', { name: 'Start', exact: true }).click()
    const dialog = page.getByRole('dialog')
    await eventually(async () =>
      expect(await dialog.innerText())
        .to.include('30 will start.')
        .and.include('20 need no change'),
    )
    await dialog.getByRole('button', { name: 'Start 30', exact: true }).click()
    await page.getByText('Starting 29 guests').waitFor() // first, because this notice disappears
    const failed = page.getByRole('alert').filter({ hasText: 'fifty-7' })
    await failed.waitFor()
    await lab.picture(page, 'bulk-failed-wide')
    expect(await failed.innerText()).not.to.include('fifty-8')
    await page.getByText('1 selected', { exact: true }).waitFor()
    await waitFor(async () => (await running('fifty-')) === 49, { what: 'all others run' })
    block(false)
    await fleet.caughtUp('host-a')
    await region().getByRole('button', { name: 'Start', exact: true }).click()
    await dialog.getByRole('button', { name: 'Start 1', exact: true }).click()
    await waitFor(async () => (await running('fifty-')) === 50, { what: 'it runs, too' })
  })
  const running = async (prefix: string): Promise<number> =>
    (await list(prefix)).filter(({ status }) => status === 'running').length

  it('are deleted only after the user typed their exact number', async () => {
    for (let at = 0; at < 3; at++) await lab.gateway.fleet.addGuest({ name: `heap-${at}`, status: 'stopped' })
    await choose('heap-', 3)
    await region().getByRole('button', { name: 'Delete', exact: true }).click()
    const dialog = page.getByRole('dialog')
    const button = dialog.getByRole('button', { name: 'Delete 3', exact: true })
    for (const wrong of ['', '2', '3 ', ' 3', '33']) {
      await dialog.locator('#confirm-typed').fill(wrong)
      expect(await button.isDisabled(), `"${wrong}"`).to.equal(true)
    }
    await dialog.locator('#confirm-typed').fill('3')
    await button.click()
    await waitFor(async () => (await list('heap-')).length === 0, { what: 'they are gone' })
  })
})
