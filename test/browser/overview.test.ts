import { expect } from 'chai'
import type { Page } from 'playwright-core'
import { findingsOf, settled, tooWide } from './page-checks.js'
import { openLab, type PanelLab } from './panel-lab.js'

type Row = Record<string, unknown>

describe('the overview of a fleet', function () {
  let lab: PanelLab
  let page: Page
  let host: Row
  let guest: Row

  before(async () => {
    lab = await openLab()
    await lab.gateway.fleet.addGuest({ name: 'only' })
    host = (await lab.gateway.request('GET', '/hosts')).body.data[0]
    guest = (await lab.gateway.request('GET', '/containers')).body.data[0]
    page = await lab.logIn()
  })
  after(() => page.context().close())

  /** Answers requests of the page with data of a simulated fleet. */
  async function simulate(count: number): Promise<void> {
    const hosts = Array.from({ length: count }, (_, at) => ({
      ...host,
      id: `h-${at}`,
      name: `fra${1 + (at % 3)}-node${at + 1}`,
      status: at === 7 ? 'offline' : 'online',
      containers: 200,
    }))
    const usages = hosts.map(({ id, status }, at) => ({
      host_id: id,
      cpu_usage_pct: status === 'offline' ? null : (at * 37) % 97,
      ram_used_mb: status === 'offline' ? null : 40_000 + ((at * 7919) % 80_000),
      disk_used_gb: status === 'offline' ? null : 500 + ((at * 331) % 1400),
      cpu_cores: 64,
      ram_total_mb: 131_072,
      disk_total_gb: 2000,
      vcpu_allocated: 150,
      ram_allocated_mb: 98_304,
      disk_allocated_gb: 1400,
      cpu_history: Array.from({ length: 48 }, (_unused, step) =>
        step < 3 ? null : 35 + 25 * Math.sin((step + at) / 4) + ((step * 13 + at * 7) % 11),
      ),
      disk_full_in_days: at === 2 ? 9 : at === 4 ? 41 : null,
      ports: { used: at === 5 ? 9900 : 2000, total: 10_000 },
      public_ipv4: { used: at === 1 ? 14 : 3, total: 14 },
    }))
    const groups = [
      { group: 'frankfurt', hosts: count, cpu_cores: 64 * count, ram_total_mb: 131_072 * count },
      { group: '', hosts: 0, cpu_cores: 0, ram_total_mb: 0 },
    ].map((one) => {
      const allocated = {
        vcpu_allocated: 150 * count,
        ram_allocated_mb: 98_304 * count,
        disk_allocated_gb: 1400 * count,
      }
      return { ...one, ...allocated, disk_total_gb: 2000 * count, fits: count * 14 }
    })
    const history = Array.from({ length: 90 }, (_, day) => (day < 70 || day === 80 ? null : count * 20 - 90 + day))
    const size = { vcpu: 2, ram_mb: 2048, disk_gb: 20, containers: count * 120, fits: count * 14 }
    const guests = Array.from({ length: count * 20 }, (_, at) => ({
      ...guest,
      id: at + 1000,
      uuid: `${guest['uuid'] as string}-${at}`,
      name: `cust${String(at).padStart(4, '0')}-web`,
      host_id: `h-${at % count}`,
      status: at === 3 || at === 11 ? 'error' : at % 12 === 0 ? 'stopped' : 'running',
      expires_at:
        at % 50 === 5
          ? new Date(Date.now() + (at % 7) * 86_000_000 + 1e7).toISOString().slice(0, 19).replace('T', ' ')
          : '',
      ...(at % 70 === 8 && { policy: 'suspended' }),
    }))
    const busiest = guests.slice(20, 26).map(({ id, uuid, name }, at) => ({
      id,
      uuid,
      name,
      cpu_usage_pct: 97 - at * 9,
      memory_usage_bytes: (3 - at / 3) * 1e9,
      disk_usage_bytes: 1e9,
      traffic_used_bytes: 1e9,
      traffic_used_pct: 0,
    }))
    for (const [path, data] of [
      ['hosts', hosts],
      ['containers', guests],
      ['fleet-usage', { hosts: usages, groups, container_history: history, common_size: count === 0 ? null : size }],
      ['container-usage?*', count === 0 ? [] : busiest],
    ] as const) {
      await page.unroute(`**/api/v1/${path}`)
      await page.route(`**/api/v1/${path}`, (route) => route.fulfill({ json: { success: true, data } }))
    }
    await page.reload()
    await lab.show(page, '/')
  }

  async function findingsInDark(): Promise<string[]> {
    await page.emulateMedia({ colorScheme: 'dark' })
    const found = await findingsOf(page, 'contrast')
    await lab.picture(page, 'overview-100-1920-dark')
    await page.emulateMedia({ colorScheme: 'light' })
    return found
  }

  for (const count of [0, 1, 100])
    it(`fits all screens with ${count} hosts`, async () => {
      await simulate(count)
      const problems: string[] = []
      for (const width of [360, 1280, 1920]) {
        await page.setViewportSize({ width, height: width === 360 ? 740 : 900 })
        await settled(page)
        await lab.picture(page, `overview-${count}-${width}-light`)
        if (await tooWide(page)) problems.push(`${width} is too wide`)
      }
      if (count === 100) problems.push(...(await findingsOf(page)), ...(await findingsInDark()))
      expect(problems).to.deep.equal([])
    })

  it('is repeated in the list of hosts, with dashes for hosts whose usage is unknown', async () => {
    await page.setViewportSize({ width: 1280, height: 900 })
    await simulate(8)
    await lab.show(page, '/hosts')
    const meters = (id: string) => page.locator(`[data-usage="${id}"] .mini-text`)
    await meters('h-1').first().waitFor()
    const shown = (await meters('h-1').allInnerTexts()).map((text) => Math.round(parseFloat(text)))
    expect(shown, 'CPU, memory, disk').to.deep.equal([37, 37, 42])
    expect(await meters('h-7').allInnerTexts()).to.deep.equal(['–', '–', '–'])
    expect(await tooWide(page)).to.equal(false)
  })
})
