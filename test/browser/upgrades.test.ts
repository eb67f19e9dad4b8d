import { expect } from 'chai'
import type { Page } from 'playwright-core'
import { earlierVersion, UpgradeLab } from '../support/gateway/upgrade-lab.js'
import { labVersion } from '../support/memory/lab-fleet.js'
import { eventually } from '../support/wait.js'
import { findingsOf, latinSentences, tooWide } from './page-checks.js'
import { PanelLab } from './panel-lab.js'

const hosts = ['host-a', 'host-b'] as const

describe('an upgrade in the panel', () => {
  let lab: PanelLab
  let upgrades: UpgradeLab
  let page: Page
  before(async () => {
    lab = await PanelLab.start({ hosts })
    upgrades = new UpgradeLab(lab.gateway)
    upgrades.writePackages()
  })
  after(() => lab.close())
  beforeEach(async () => {
    for (const hostId of hosts) {
      upgrades.packagesOf(hostId).orders.length = 0
      await upgrades.install(hostId)
    }
  })
  afterEach(async () => {
    await page.context().close()
    lab.expectNoComplaints()
  })

  /** Presses a button and confirms in the dialog. */
  async function press(name: string): Promise<void> {
    await page.getByRole('button', { name, exact: true }).first().click()
    const dialog = page.getByRole('dialog')
    await dialog.getByRole('button', { name, exact: true }).click()
    await dialog.waitFor({ state: 'hidden' })
  }

  it('shows each step for a host, and can then be rolled back', async () => {
    page = await lab.logIn()
    await lab.show(page, '/hosts/host-a')
    await press('Upgrade')
    const current = page.locator('li[aria-current="step"]')
    for (const [step, text] of [
      ['checking', 'Check host'],
      ['installing', 'Install'],
      ['waiting', 'Connect'],
    ] as const) {
      await upgrades.report('host-a', step)
      await current.filter({ hasText: text }).waitFor()
    }
    await lab.picture(page, 'upgrade-wide')
    await upgrades.complete('host-a', 1)
    await page.locator('li.good').filter({ hasText: 'Done' }).waitFor()
    await press('Roll back')
    await upgrades.fail('host-a', 2, 'the list of packages is damaged')
    await page.getByText('The upgrade failed: the list of packages is damaged').waitFor()
  })

  it('can include all hosts, be paused, and be rolled back', async () => {
    page = await lab.logIn()
    await lab.show(page, '/hosts')
    await press('Upgrade all hosts')
    await page.getByText('Running: 0 of 2 hosts done.').waitFor()
    await page.getByRole('button', { name: 'Pause', exact: true }).click()
    await page.getByText('Paused: 0 of 2 hosts done.').waitFor()
    await upgrades.complete('host-a', 1)
    await page.getByText('Paused: 1 of 2 hosts done.').waitFor()
    await lab.picture(page, 'fleet-upgrade-wide')
    await page.getByRole('button', { name: 'Resume', exact: true }).click()
    await upgrades.complete('host-b', 1)
    await page.getByText('Complete: 2 of 2 hosts done.').waitFor()
    await page.getByRole('button', { name: 'Roll back', exact: true }).click()
    for (const hostId of hosts) await upgrades.complete(hostId, 2)
    await page.getByRole('heading', { name: 'Rollback of all hosts', exact: true }).waitFor()
    await page.getByText('Complete: 2 of 2 hosts done.').waitFor()
    const versionOf = (hostId: string) => lab.gateway.fleet.findHost(hostId)?.description?.version
    await eventually(() => expect(versionOf('host-b')).to.equal(earlierVersion))
  })

  it('is accessible, translated into Chinese, and fits the screen of a phone', async () => {
    await upgrades.install('host-a', labVersion, { previous: earlierVersion })
    page = await lab.logIn({ language: 'zh', screen: 'phone' })
    for (const path of ['/hosts', '/hosts/host-a', '/hosts/host-b']) {
      await lab.show(page, path)
      expect(await tooWide(page), path).to.equal(false)
      expect(await findingsOf(page), path).to.deep.equal([])
      expect(latinSentences(await page.locator('body').innerText()), path).to.deep.equal([])
    }
  })
})
