import { expect } from 'chai'
import type { CDPSession, Page } from 'playwright-core'
import { openLab, type PanelLab } from './panel-lab.js'

/** Limits of time and memory, by number of guests. The page gets only a quarter of a processor (see `throttling`). */
const bounds = {
  1000: { rowsMs: 2000, searchMs: 100, frameMs: 40, heapMb: 60 },
  20_000: { rowsMs: 2000, searchMs: 200, frameMs: 40, heapMb: 60 },
} as const
const throttling = 4
/** Tolerance for delays by other threads. It is far below the factor 20 between 1,000 and 20,000 guests. */
const slowness = 2.5

/** Script that types searches and waits until each is drawn. It returns the number of searches. */
const searchScript = (input: string): string => `(async () => {
  const input = document.querySelector('${input}')
  const texts = ['s', 'si', 'sim-1', 'sim-12', 'sim-1234', 'nothing like it', '203.0.113.7:20022']
  for (const text of texts) {
    input.value = text
    input.dispatchEvent(new Event('input', { bubbles: true }))
    await new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)))
  }
  input.value = ''
  input.dispatchEvent(new Event('input', { bubbles: true }))
  return texts.length
})()`

/** Script that scrolls the list. It returns the number of drawn frames. */
const scrollScript = `(async () => {
  const box = document.querySelector('.list-box')
  for (let frame = 0; frame < 60; frame++) {
    box.scrollTop += 40
    await new Promise(requestAnimationFrame)
  }
  return 60
})()`

for (const count of [1000, 20_000] as const)
  describe(`a list of ${count} guests`, function () {
    const most = bounds[count]
    let lab: PanelLab
    let page: Page
    let devtools: CDPSession
    before(async () => {
      lab = await openLab()
      const { id } = await lab.gateway.fleet.addGuest()
      const { body } = await lab.gateway.request('GET', `/containers/${id}`)
      const one = body.data as { uuid: string }
      page = await lab.logIn()
      // The list is simulated, as this test measures only the page. test/fleet and the benchmark measure the gateway.
      const rows = Array.from({ length: count }, (_, at): object => ({
        ...one,
        id: at + 1000,
        name: `sim-${at + 1000}`,
        uuid: `${one.uuid}-${at}`,
      }))
      const answer = JSON.stringify({ success: true, data: rows })
      await page.route('**/api/v1/containers', (route) =>
        route.fulfill({ body: answer, contentType: 'application/json', headers: { etag: '"many"' } }),
      )
      devtools = await page.context().newCDPSession(page)
      await devtools.send('Performance.enable', { timeDomain: 'threadTicks' })
    })
    after(() => page.context().close())

    /** Returns the CPU time of the page's own thread in ms, which other processes on this machine do not affect. */
    async function workOf<T>(run: () => Promise<T>): Promise<{ ms: number; result: T }> {
      const read = async (): Promise<number> =>
        (await devtools.send('Performance.getMetrics')).metrics.find(({ name }) => name === 'TaskDuration')!.value
      const before = await read()
      const result = await run()
      return { ms: ((await read()) - before) * 1000, result }
    }
    const within = (what: string, ms: number, bound: number): void => {
      const told = `${what}: ${Math.round(ms * throttling)} of ${bound} ms on a quarter of the processor`
      console.log(`      ${told}`)
      expect(ms * throttling, told).to.be.lessThan(slowness * bound)
    }

    it('shows its first rows soon, and renders only the visible rows', async () => {
      const { ms } = await workOf(async () => {
        await page.goto(`${lab.gateway.url}/#/containers`)
        await page.locator('.guest-row .name').first().waitFor()
      })
      within('rows', ms, most.rowsMs)
      expect(await page.locator('.guest-row').count()).to.be.lessThan(100)
      await lab.picture(page, `guests-${count}-wide`)
    })

    async function searched(input: string): Promise<void> {
      const { ms, result } = await workOf(() => page.evaluate<number>(searchScript(input)))
      within('a key of a search', ms / result, most.searchMs)
    }

    it('can be searched while the user types', async () => {
      await page.waitForFunction('new Promise((resolve) => requestIdleCallback(() => resolve(true)))')
      await searched('[data-search]')
      await page.locator('[data-search]').fill('sim-1234')
      await page.locator('.guest-row .name', { hasText: /^sim-1234$/ }).waitFor()
      await page.locator('[data-search]').fill('')
      await page.locator('.guest-row .name', { hasText: /^sim-1000$/ }).waitFor()
    })

    it('can be scrolled to its end without delays', async () => {
      const { ms, result } = await workOf(() => page.evaluate<number>(scrollScript))
      within('a frame of scrolling', ms / result, most.frameMs)
      await page.evaluate('document.querySelector(".list-box").scrollTop = 1e9')
      await page.locator('.guest-row .name', { hasText: `sim-${count + 999}` }).waitFor()
    })

    it('can be searched from every page of the panel', async () => {
      await page.keyboard.press('Control+k')
      await page.locator('.palette input').waitFor()
      await searched('.palette input')
      await page.keyboard.press('Escape')
    })

    it('needs little memory', async () => {
      await devtools.send('HeapProfiler.collectGarbage')
      const { usedSize } = await devtools.send('Runtime.getHeapUsage')
      const mb = usedSize / 1024 ** 2
      console.log(`      ${mb.toFixed(1)} MB`)
      expect(mb).to.be.lessThan(most.heapMb)
    })
  })
