import { expect } from 'chai'
import { join } from 'node:path'
import { figuresOf, indexAt, planWrites, tiers } from '../../../agent/history/plan-series.js'
import { hostSeries, SeriesFiles } from '../../../agent/history/series-files.js'
import type { Body } from '../../support/body.js'
import { startTestGateway, type TestGateway } from '../../support/gateway/test-gateway.js'
import { waitFor } from '../../support/wait.js'

const medium = { vcpuMilli: 2000, ramMb: 2048, diskGb: 20 }
const noRates = { networkDownMbps: 0, networkUpMbps: 0, ioReadMbps: 0, ioWriteMbps: 0 }

describe('the usage of a fleet', () => {
  let gateway: TestGateway
  let ids: number[]
  const uuids: string[] = []
  before(async () => {
    gateway = await startTestGateway({ hosts: ['host-a', 'host-b'] })
    const limits = { ...medium, ...noRates }
    const traffic = { mode: 'total', monthlyGb: 1, inGb: 0, outGb: 0, action: 'none' } as const
    const added = [
      await gateway.fleet.addGuest({ name: 'busy', limits, traffic: { ...traffic, throttleMbps: 0, resetDay: 0 } }),
      await gateway.fleet.addGuest({ name: 'idle', limits }),
      await gateway.fleet.addGuest({ name: 'small' }, 'host-b'),
    ]
    ids = added.map(({ id }) => id)
    uuids.push(...added.map(({ uuid }) => uuid))
  })
  after(() => gateway.close())

  const read = async (path: string, key?: string): Promise<Body> => {
    const { status, body, text } = await gateway.request('GET', path, key === undefined ? {} : { key })
    expect(status, text).to.equal(200)
    return body.data
  }
  const hostOf = async (id: string): Promise<Body> =>
    ((await read('/fleet-usage')).hosts as Body[]).find((host) => host.host_id === id)

  it('lists each host with its capacity, its usage and its allocated resources', async () => {
    await waitFor(async () => (await hostOf('host-a')).ram_used_mb !== null, { what: 'measured' })
    const host = await hostOf('host-a')
    expect(host).to.include({ cpu_cores: 8, disk_total_gb: 500, vcpu_allocated: 4, ram_allocated_mb: 4096 })
    expect(host.ram_used_mb).to.be.within(1, 10_000_000)
    expect(host.ports.total).to.be.greaterThan(host.ports.used)
    await waitFor(async () => (await hostOf('host-a')).public_ipv4 !== null, { what: 'pool read' })
    expect((await hostOf('host-a')).public_ipv4).to.deep.equal({ used: 0, total: 0 })
  })

  it('counts how many more containers of the most common size fit on hosts that accept containers', async () => {
    const { common_size: both } = await read('/fleet-usage')
    expect(both).to.include({ vcpu: 2, ram_mb: 2048, disk_gb: 20, containers: 2 })
    expect(both.fits).to.be.greaterThan(10)
    await gateway.request('PATCH', '/hosts/host-b', { body: { draining: true } })
    const { common_size: one } = await read('/fleet-usage')
    expect(one.fits).to.be.lessThan(both.fits).and.greaterThan(0)
    await gateway.request('PATCH', '/hosts/host-b', { body: { draining: false } })
  })

  it('records the number of containers once an hour', async () => {
    const unrecorded = (await read('/fleet-usage')).container_history as unknown as (number | null)[]
    expect(unrecorded).to.deep.equal(Array.from({ length: 90 }, () => null))
    await gateway.upkeep.run()
    const recorded = (await read('/fleet-usage')).container_history as unknown as (number | null)[]
    const { total } = gateway.fleet.view.countGuests()
    expect(recorded).to.deep.equal([...unrecorded.slice(1), total])
    expect(total).to.be.greaterThan(0)
  })

  it('returns null for the present usage of an offline host', async () => {
    await gateway.fleet.setHostState('host-b', 'offline')
    expect(await hostOf('host-b')).to.include({
      cpu_usage_pct: null,
      ram_used_mb: null,
      disk_used_gb: null,
      ports: null,
      cpu_cores: 8,
    })
    const [small] = await read(`/container-usage?containers=${ids[2]}`)
    expect(small).to.include({ name: 'small', cpu_usage_pct: null, disk_usage_bytes: null, traffic_used_bytes: null })
    await gateway.fleet.setHostState('host-b', 'online')
  })

  it('refuses callers bound to containers', async () => {
    const key = await gateway.makeKey({ scopes: ['*'], container_uuids: [uuids[0]!] })
    expect((await gateway.request('GET', '/fleet-usage', { key })).status).to.equal(403)
    const rows = (await read(`/container-usage?containers=${ids.join(',')}`, key)) as { name: string }[]
    expect(rows.map(({ name }) => name)).to.deep.equal(['busy'])
  })

  it('refuses a request for more than 100 containers', async () => {
    const many = Array.from({ length: 101 }, (_, at) => at + 1).join(',')
    const { status, body } = await gateway.request('GET', `/container-usage?containers=${many}`)
    expect([status, body.details.field]).to.deep.equal([400, 'containers'])
  })

  describe('after its first measurement', () => {
    let other: TestGateway
    before(async () => {
      // A separate gateway, because the first gateway has cached that nothing was measured.
      other = await startTestGateway({ hosts: ['host-a'] })
    })
    after(() => other.close())

    it('lists the busiest containers first, and shows the use of their traffic quota', async () => {
      const traffic = { mode: 'total', monthlyGb: 1, inGb: 0, outGb: 0, action: 'none' } as const
      const busy = await other.fleet.addGuest({
        name: 'busy',
        traffic: { ...traffic, throttleMbps: 0, resetDay: 0 },
      })
      await other.fleet.addGuest({ name: 'stopped', status: 'stopped' })
      await other.fleet.addTraffic(busy.uuid, { rxBytes: 200_000_000, txBytes: 50_000_000 })
      const { sampler } = other.fleet.agentOf('host-a').domain
      sampler.observed([{ uuid: busy.uuid, state: 'running', pid: 1 }])
      await sampler.sample()
      const { body } = await other.request('GET', '/container-usage')
      expect(body.data).to.have.length(1)
      expect(body.data[0]).to.include({
        name: 'busy',
        memory_usage_bytes: 1_048_576,
        traffic_used_bytes: 250_000_000,
        traffic_used_pct: 25,
      })
      expect(body.data[0].cpu_usage_pct).to.be.within(0, 100)
    })

    it('shows the processor’s history in 48 points, and the day when the disk will be full', async () => {
      const { host, domain } = other.fleet.agentOf('host-a')
      const files = new SeriesFiles(join(domain.context.config.state_dir, 'history'))
      const write = (range: 'day' | 'month', steps: number, figures: (ago: number) => object): void => {
        const now = indexAt(tiers[range], Date.now())
        const points = Array.from({ length: steps }, (_, ago) => ({
          index: now - ago - 1,
          figures: figuresOf(figures(ago)),
        }))
        files.write(hostSeries, planWrites(tiers[range], points))
      }
      const { totalBytes } = host.pool
      host.pool = { totalBytes, usedBytes: totalBytes / 2 } // what the agent measures meanwhile fits the written points
      write('day', 90, () => ({ cpuPercent: 40 }))
      write('month', 240, (ago) => ({ diskBytes: totalBytes * (0.5 - ago / 4800) }))
      const { body } = await other.request('GET', '/fleet-usage')
      const [shown] = body.data.hosts
      expect(shown.cpu_history).to.have.length(48)
      expect(shown.cpu_history[0]).to.equal(null)
      expect(shown.cpu_history[46]).to.be.closeTo(40, 0.1)
      expect(shown.disk_full_in_days).to.be.within(98, 101)
    })
  })
})
