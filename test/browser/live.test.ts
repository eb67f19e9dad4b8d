import { expect } from 'chai'
import type { Locator, Page } from 'playwright-core'
import { CutLine } from '../support/cut-line.js'
import { makeAdmin } from '../support/gateway/browser.js'
import { settled as still } from './page-checks.js'
import { fillLogin, PanelLab } from './panel-lab.js'
import { eventually, waitFor } from '../support/wait.js'
import { expectInTime } from '../support/promised-time.js'

const count = 1000

describe(`the panel with live data of ${count} guests`, () => {
  let lab: PanelLab
  let line: CutLine | undefined
  let id: number

  before(async function () {
    lab = await PanelLab.start()
    const { fleet } = lab.gateway
    fleet.agents.get('host-a')!.seed(count, 1000)
    await fleet.work('host-a')
    id = (await fleet.addGuest({ name: 'watched' })).id
    await waitFor(() => [...fleet.view.guests()].length > count, { what: 'the guests are known' })
  })
  after(async () => {
    await lab.close()
    await line?.close()
  })

  const order = async (action: 'start' | 'stop'): Promise<void> => {
    const { status } = await lab.gateway.request('POST', `/containers/${id}/${action}`, { body: {} })
    expect(status).to.equal(202)
  }
  const badge = (page: Page, text: string): Locator =>
    page.getByRole('row').filter({ hasText: 'watched' }).getByText(text, { exact: true })
  const settled = (): Promise<unknown> => waitFor(() => lab.gateway.events.listeners === 1, { what: 'one stream' })

  /** Calls `act`, and waits until every page shows the status. @returns the time in milliseconds */
  const measure = async (pages: readonly Page[], text: string, act: () => Promise<void>): Promise<number> => {
    const begun = performance.now()
    const seen = pages.map((page) => badge(page, text).waitFor())
    await act()
    await Promise.all(seen)
    return Math.round(performance.now() - begun)
  }

  it('sends at most a few requests per minute while nothing happens', async function () {
    const page = await lab.logIn()
    await page.clock.install()
    await page.reload()
    await lab.show(page, '/containers')
    await settled()
    // Waits for the script that the page loads last.
    await page.locator('section[aria-label^="Notices"]').waitFor({ state: 'attached' })
    const asked: string[] = []
    page.context().on('request', (request) => asked.push(request.url()))
    await page.clock.runFor(60_000)
    console.log(`      ${asked.length} requests in a minute`)
    expect(asked.length, asked.join(' ')).to.be.at.most(6)
    await page.context().close()
  })

  it('shares one event stream between eight tabs, and all of them show a change', async function () {
    const first = await lab.logIn()
    const pages = [first]
    while (pages.length < 8) pages.push(await first.context().newPage())
    for (const page of pages) await lab.show(page, '/containers?text=watched')
    await settled()
    const ms = await measure(pages, 'Stopped', () => order('stop'))
    console.log(`      eight tabs after ${ms} ms`)
    expect(lab.gateway.events.listeners).to.equal(1)
    await measure(pages, 'Running', () => order('start'))
    await first.close()
    await measure(pages.slice(1), 'Stopped', () => order('stop'))
    await measure(pages.slice(1), 'Running', () => order('start'))
    await first.context().close()
  })

  it('shows changes in two browsers as soon as their event streams report the changes', async function () {
    const pages = [await lab.logIn(), await lab.logIn()]
    for (const page of pages) {
      await page.clock.install()
      await page.reload()
      await lab.show(page, '/containers?text=watched')
    }
    await Promise.all(pages.map((page) => badge(page, 'Running').waitFor()))
    await waitFor(() => lab.gateway.events.listeners === 2, { what: 'two streams' })
    const requests: string[] = []
    for (const page of pages) {
      await page.clock.pauseAt(Date.now() + 5000) // no timer of the page runs from here on
      page.context().on('request', (request) => requests.push(request.url()))
    }
    const times = [
      await measure(pages, 'Stopped', () => order('stop')),
      await measure(pages, 'Running', () => order('start')),
    ]
    console.log(`      after ${times.join(' and ')} ms`)
    expect(requests).to.deep.equal([])
    for (const page of pages) await page.context().close()
  })

  it('reports an unreachable gateway, keeps input and scroll position, and refreshes when the gateway is back', async function () {
    const cuttable = (line = await CutLine.start(lab.gateway.url))
    await makeAdmin(lab.gateway, 'away')
    const list = await (await lab.open()).newPage()
    await list.goto(`${cuttable.url}/#/containers`)
    await fillLogin(list, 'away')
    await list.locator('.guest-row').first().waitFor()
    await list.evaluate('document.querySelector(".list-box").scrollTop = 20_000')
    const form = await list.context().newPage()
    await form.goto(`${cuttable.url}/#/containers/new`)
    await form.locator('#name').fill('half-typed')
    const settings = await list.context().newPage()
    await settings.goto(`${cuttable.url}/#/settings`)
    await settings.locator('#origins').fill('https://half.example')
    await settled()

    cuttable.cut()
    const banners = [list, form, settings].map((page) =>
      page.locator('.banner[role=alert]').filter({ hasText: 'Connection lost' }),
    )
    await Promise.all(banners.map((banner) => banner.waitFor()))
    const create = form.getByRole('button', { name: 'Create', exact: true })
    await waitFor(() => create.isDisabled(), { what: 'no button that asks' })
    await lab.picture(form, 'offline-wide')
    await lab.gateway.request('DELETE', `/containers/1100/delete`, { body: {} })
    await waitFor(() => !lab.gateway.fleet.view.findGuest('1100'), { what: 'deleted' })

    const begun = performance.now()
    cuttable.mend()
    await Promise.all(banners.map((banner) => banner.waitFor({ state: 'detached' })))
    await list.getByText('1,000 of 1,000').waitFor()
    console.log(`      fresh after ${Math.round(performance.now() - begun)} ms`)
    expectInTime(begun, 3000, 'all is fresh')
    expect(await form.locator('#name').inputValue()).to.equal('half-typed')
    await still(settings)
    expect(await settings.locator('#origins').inputValue()).to.equal('https://half.example')
    await waitFor(() => create.isEnabled(), { what: 'the button is back' })
    await eventually(async () =>
      expect(await list.evaluate('document.querySelector(".list-box").scrollTop')).to.equal(20_000),
    )
    await list.context().close()
  })
})
