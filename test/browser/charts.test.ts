import { join } from 'node:path'
import { expect } from 'chai'
import type { Page } from 'playwright-core'
import { figuresOf, indexAt, planWrites, tiers } from '../../agent/history/plan-series.js'
import { SeriesFiles } from '../../agent/history/series-files.js'
import type { Guest } from '../../proto/gen/berth/agent/v1/guest.js'
import { BerthError } from '../../shared/errors.js'
import { eventually, waitFor } from '../support/wait.js'
import { settled, tooWide } from './page-checks.js'
import { openLab, type PanelLab } from './panel-lab.js'

/** Script that counts the pixels of the given theme colour in the first chart. */
const countPixels = (colour: string): string => `(() => {
  const style = getComputedStyle(document.documentElement)
  const [r, g, b] = style.getPropertyValue('${colour}').trim().match(/[0-9a-f]{2}/gi).map((part) => parseInt(part, 16))
  const canvas = document.querySelector('.chart canvas')
  const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height)
  let count = 0
  for (let at = 0; at < data.length; at += 4)
    if (data[at] === r && data[at + 1] === g && data[at + 2] === b && data[at + 3] === 255) count++
  return count
})()`

describe('a guest in the panel', function () {
  let lab: PanelLab
  let guest: Guest
  let page: Page

  before(async () => {
    lab = await openLab()
    await lab.gateway.fleet.work('host-a')
    guest = await lab.gateway.fleet.addGuest({ name: 'charted' })
    record(guest, 32)
    page = await lab.logIn()
    lab.forgetComplaints()
  })
  after(() => page.context().close())
  afterEach(() => lab.expectNoComplaints())

  /** Adds figures to the history, as if the agent had measured them in the last minutes. */
  function record({ uuid }: Guest, minutes: number): void {
    const { config } = lab.gateway.fleet.agentOf('host-a').domain.context
    const now = indexAt(tiers.day, Date.now())
    const points = Array.from({ length: minutes }, (_, ago) => ({
      index: now - 1 - ago, // the current minute is not complete yet
      figures: figuresOf({ cpuPercent: 20 + (ago % 7), memoryBytes: 2 ** 26, rxBytesPerSec: 1000 * ago }),
    }))
    new SeriesFiles(join(config.state_dir, 'history')).write(uuid, planWrites(tiers.day, points))
  }
  const ended = (id: string): Promise<unknown> =>
    waitFor(() => lab.gateway.fleet.view.findOperation(id)?.operation.status === 'done', { what: id })
  const pixels = (colour: string): Promise<number> => page.evaluate<number>(countPixels(colour))
  const shown = async (): Promise<void> => {
    await lab.show(page, `/containers/${guest.id}`)
    await page.locator('.chart canvas').first().waitFor()
  }

  it('has charts that mark the times of its tasks and crashes', async () => {
    await shown()
    const before = await pixels('--line-strong')
    expect(await page.locator('[data-marks]').count(), 'nothing happened yet').to.equal(0)
    const { body } = await lab.gateway.request('POST', `/containers/${guest.id}/restart`, { body: {} })
    await ended(body.data.task_id as string)
    await page.locator('[data-marks]').getByText('Tasks and changes').waitFor()
    await waitFor(async () => (await pixels('--line-strong')) > before + 50, { what: 'a mark of the order' })
    expect(await page.locator('[data-marks]').innerText()).not.to.include('Policy stops')
    expect(await pixels('--bad'), 'nothing is wrong').to.equal(0)

    const agent = lab.gateway.fleet.agentOf('host-a')
    await waitFor(() => agent.host.driver.running.has(guest.uuid), { what: 'it runs' })
    agent.host.driver.end(guest.uuid, 'crash')
    await page.locator('[data-marks]').getByText('Policy stops, restarts and alerts').waitFor()
    await waitFor(async () => (await pixels('--bad')) > 50, { what: 'a mark of the restart' })
    await lab.picture(page, 'charts-wide')
    await page.setViewportSize({ width: 360, height: 740 })
    await lab.picture(page, 'charts-phone')
    await page.setViewportSize({ width: 1280, height: 800 })
  })

  it('has charts in complete rows that fit each screen in both themes', async () => {
    await shown()
    const columns = '[...new Set([...document.querySelectorAll(".chart")].map((one) => one.offsetLeft))].length'
    for (const [width, expected] of [
      [360, 1],
      [1280, 2],
      [1920, 2],
    ] as const)
      for (const colorScheme of ['light', 'dark'] as const) {
        await page.setViewportSize({ width, height: 900 })
        await page.emulateMedia({ colorScheme })
        await waitFor(async () => (await page.evaluate(columns)) === expected, {
          what: `${expected} columns at ${width}`,
        })
        await settled(page)
        expect(await tooWide(page), `${width} ${colorScheme}`).to.equal(false)
        await lab.picture(page, `charts-${width}-${colorScheme}`)
      }
    await page.emulateMedia({ colorScheme: 'light' })
    await page.setViewportSize({ width: 1280, height: 800 })
  })

  it('has charts for the whole chosen period up to now, even if the guest is new', async () => {
    const young = await lab.gateway.fleet.addGuest({ name: 'young' })
    record(young, 1)
    await lab.show(page, `/containers/${young.id}`)
    for (const [button, days] of [
      ['Day', 1],
      ['Month', 31],
      ['Year', 366],
    ] as const) {
      await page.getByRole('button', { name: button, exact: true }).click()
      await waitFor(async () => Math.abs((await periodOf()).days - days) < 0.1, { what: button })
      expect(Math.abs((await periodOf()).endMs - Date.now()), 'it ends now').to.be.lessThan(120_000)
    }
  })

  /** Reads the time axis of the first chart from the label for screen readers. */
  async function periodOf(): Promise<{ days: number; endMs: number }> {
    const label = (await page.locator('.chart [role=img]').first().getAttribute('aria-label')) ?? ''
    const [from = 0, to = 0] = (label.match(/\d{4}-\d\d-\d\d \d\d:\d\d/g) ?? []).map((text) =>
      new Date(text.replace(' ', 'T')).getTime(),
    )
    return { days: (to - from) / 86_400_000, endMs: to }
  }

  describe('whose disk is about to be replaced', () => {
    const snapshots = async (): Promise<{ id: string; description: string }[]> => {
      const { body } = await lab.gateway.request('GET', `/containers/${guest.id}/snapshots`)
      return body.data.snapshots as { id: string; description: string }[]
    }
    const removeAll = async (): Promise<void> => {
      for (const { id } of await snapshots())
        await lab.gateway.request('DELETE', `/containers/${guest.id}/snapshots/${id}`)
    }
    async function reinstall(): Promise<void> {
      await lab.show(page, `/containers/${guest.id}/settings`)
      await page.getByRole('button', { name: 'Reinstall', exact: true }).click()
    }
    const dialog = () => page.getByRole('dialog')
    const check = () => dialog().getByRole('checkbox')

    beforeEach(removeAll)

    it('gets a snapshot before a reinstallation, and can be restored from this snapshot', async () => {
      await reinstall()
      await waitFor(() => check().isChecked(), { what: 'it is selected by default' })
      await lab.picture(page, 'reinstall-wide')
      await dialog().locator('#confirm-typed').fill('charted')
      await dialog().getByRole('button', { name: 'Reinstall', exact: true }).click()
      await page.locator('[data-secret]').waitFor()
      await dialog().locator('[role=progressbar][aria-valuenow="100"]').waitFor()
      await page.getByRole('button', { name: 'Done', exact: true }).click()
      const [taken, ...others] = await snapshots()
      expect(others).to.deep.equal([])
      expect(taken!.description).to.equal('before the reinstallation')

      await lab.show(page, `/containers/${guest.id}/snapshots`)
      await page.getByRole('button', { name: 'Restore' }).click()
      await waitFor(() => check().isChecked(), { what: 'ticked here, too' })
      await check().uncheck()
      await dialog().locator('#confirm-typed').fill('charted')
      await dialog().getByRole('button', { name: 'Restore' }).click()
      await page.getByText('Restored', { exact: false }).first().waitFor()
      expect(
        (await snapshots()).map(({ id }) => id),
        'none that was not wanted',
      ).to.deep.equal([taken!.id])
    })

    it('keeps its disk if the snapshot before the reinstallation fails', async () => {
      const { faults } = lab.gateway.fleet.agentOf('host-a').host
      await reinstall()
      await waitFor(() => check().isChecked(), { what: 'it is offered' })
      faults.snapshot = () => {
        throw new BerthError('conflict', 'guest_busy', 'another operation is running')
      }
      const reinstalled = (): boolean =>
        lab.gateway.fleet.operations().some(({ operation }) => operation.action === 'reinstall')
      const before = reinstalled()
      await dialog().locator('#confirm-typed').fill('charted')
      await dialog().getByRole('button', { name: 'Reinstall' }).click()
      await dialog().getByRole('alert').waitFor()
      delete faults.snapshot
      expect(await page.locator('[data-secret]').count()).to.equal(0)
      await page.keyboard.press('Escape')
      await dialog().waitFor({ state: 'detached' })
      if (!before) expect(reinstalled(), 'nothing was ordered').to.equal(false)
      expect(await snapshots()).to.deep.equal([])
    })

    it('shows the reason instead of a password if the reinstallation fails', async () => {
      const { faults } = lab.gateway.fleet.agentOf('host-a').host
      faults.prepare = () => {
        throw new BerthError('conflict', 'guest_busy', 'another operation is running')
      }
      await reinstall()
      await dialog().locator('#confirm-typed').fill('charted')
      await dialog().getByRole('button', { name: 'Reinstall', exact: true }).click()
      await dialog().getByRole('alert').filter({ hasText: 'another operation is running' }).waitFor()
      delete faults.prepare
      expect(await page.locator('[data-secret]').count()).to.equal(0)
      await dialog().getByRole('button', { name: 'Done', exact: true }).click()
      await dialog().waitFor({ state: 'detached' })
    })

    it('has no option to take a snapshot if it has reached its snapshot limit', async () => {
      const { body } = await lab.gateway.request('GET', `/containers/${guest.id}/snapshots`)
      for (let at = 0; at < body.data.quota; at++)
        await lab.gateway.request('POST', `/containers/${guest.id}/snapshots`, { body: {} })
      await reinstall()
      await dialog().getByText('snapshot limit is reached', { exact: false }).waitFor()
      await eventually(async () =>
        expect([await check().isChecked(), await check().isDisabled()]).to.deep.equal([false, true]),
      )
      await page.keyboard.press('Escape')
    })
  })
})
