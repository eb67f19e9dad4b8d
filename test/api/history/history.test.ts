import { expect } from 'chai'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { figuresOf, indexAt, planWrites, tiers, type Figures } from '../../../agent/history/plan-series.js'
import { hostSeries, SeriesFiles } from '../../../agent/history/series-files.js'
import { History } from '../../../proto/gen/berth/agent/v1/history.js'
import type { Body } from '../../support/body.js'
import { startTestGateway, type TestGateway } from '../../support/gateway/test-gateway.js'
import { waitFor } from '../../support/wait.js'

const row = {
  cpu_usage_pct: null,
  memory_usage_bytes: null,
  disk_usage_bytes: null,
  network_rx_bytes_per_sec: null,
  network_tx_bytes_per_sec: null,
  io_read_bytes_per_sec: null,
  io_write_bytes_per_sec: null,
}

describe('the usage history', () => {
  let gateway: TestGateway
  let uuid: string
  let files: SeriesFiles
  let directory: string
  before(async () => {
    gateway = await startTestGateway({ hosts: ['host-a', 'host-b'] })
    ;({ uuid } = await gateway.fleet.addGuest({ name: 'web' }))
    directory = join(gateway.fleet.agentOf('host-a').domain.context.config.state_dir, 'history')
    files = new SeriesFiles(directory)
  })
  after(() => gateway.close())

  /** Writes figures into the history. The keys of `ago` are ages, in minutes, hours or days depending on the range. */
  function record(key: string, range: keyof typeof tiers, ago: Record<number, Partial<Figures>>): void {
    const now = indexAt(tiers[range], Date.now())
    const points = Object.entries(ago).map(([steps, known]) => ({
      index: now - Number(steps),
      figures: figuresOf(known),
    }))
    files.write(key, planWrites(tiers[range], points))
  }
  const read = async (path: string): Promise<Body> => (await gateway.request('GET', path)).body.data

  it('has no points before anything was recorded', async () => {
    const { uuid: other } = await gateway.fleet.addGuest({ name: 'new' })
    const expected = { range: 'month', step_seconds: 3600, points: [] }
    expect(await read(`/containers/${other}/history?range=month`)).to.deep.equal(expected)
  })

  it('has one point per minute, with null for values that were not recorded', async () => {
    record(uuid, 'day', {
      5: { cpuPercent: 12.345, rxBytesPerSec: 10.4 },
      3: { memoryBytes: 1024, diskBytes: 0 },
    })
    const { range, step_seconds, points } = await read('/containers/web/history')
    expect([range, step_seconds]).to.deep.equal(['day', 60])
    const [first, gap, third] = points as Body[]
    const { time, timestamp } = first
    expect(first).to.deep.equal({
      ...row,
      time,
      timestamp,
      cpu_usage_pct: 12.35,
      network_rx_bytes_per_sec: 10,
    })
    expect(timestamp % 60).to.equal(0)
    expect(Date.parse(`${String(time).replace(' ', 'T')}Z`) / 1000).to.equal(timestamp)
    expect(gap).to.deep.include({ ...row, timestamp: timestamp + 60 })
    expect(third).to.deep.include({ ...row, memory_usage_bytes: 1024, disk_usage_bytes: 0 })
  })

  for (const [range, seconds, ago] of [
    ['month', 3600, 700],
    ['year', 86_400, 300],
  ] as const)
    it(`has one point per ${seconds} s in the range of a ${range}`, async () => {
      record(uuid, range, { [ago]: { cpuPercent: 1 } })
      const { step_seconds, points } = await read(`/containers/${uuid}/history?range=${range}`)
      expect([step_seconds, points[0].cpu_usage_pct]).to.deep.equal([seconds, 1])
      expect(points.length).to.be.within(ago, ago + 2)
    })

  it('has the same form for a host as for a guest', async () => {
    record(hostSeries, 'day', { 2: { cpuPercent: 33, memoryBytes: 5 } })
    const { host_id, points } = await read('/host-history')
    expect([host_id, points[0].cpu_usage_pct, points[0].memory_usage_bytes]).to.deep.equal(['host-a', 33, 5])
    expect(await read('/host-history?host_id=host-b&range=year')).to.deep.include({ host_id: 'host-b' })
    const unknown = await gateway.request('GET', '/host-history?host_id=nowhere')
    expect([unknown.status, unknown.body.details.field]).to.deep.equal([400, 'host_id'])
  })

  it('is refused for an unknown range', async () => {
    for (const path of ['/containers/web/history?range=week', '/host-history?range=1']) {
      const { status, body } = await gateway.request('GET', path)
      expect([status, body.code, body.details.field], path).to.deep.equal([400, 'invalid_field', 'range'])
    }
  })

  it('is shown for containers of the caller, and for hosts only to callers not bound to containers', async () => {
    const other = await gateway.fleet.addGuest({ name: 'theirs' })
    const bound = await gateway.makeKey({ scopes: ['container:read'], container_uuids: [other.uuid] })
    const [unseen, absent] = await Promise.all(
      ['web', 'nothing'].map((name) => gateway.request('GET', `/containers/${name}/history`, { key: bound })),
    )
    expect([unseen!.status, unseen!.body.code]).to.deep.equal([absent!.status, absent!.body.code])
    expect((await gateway.request('GET', '/containers/theirs/history', { key: bound })).status).to.equal(200)
    expect((await gateway.request('GET', '/host-history', { key: bound })).status).to.equal(403)
  })

  it('is refused with 503 while the host is offline', async () => {
    await gateway.fleet.setHostState('host-a', 'offline')
    for (const path of ['/containers/web/history', '/host-history?host_id=host-a'])
      expect((await gateway.request('GET', path)).status, path).to.equal(503)
    await gateway.fleet.setHostState('host-a', 'online')
  })

  it('is still complete when the agent has restarted', async () => {
    await gateway.fleet.agentOf('host-a').restart()
    await waitFor(async () => (await gateway.request('GET', '/containers/web/history')).status === 200, {
      what: 'the host is back',
    })
    expect((await read('/containers/web/history')).points[0].cpu_usage_pct).to.equal(12.35)
  })

  it('is deleted when its guest is deleted', async () => {
    expect(existsSync(join(directory, uuid))).to.equal(true)
    await gateway.fleet.work('host-a')
    await gateway.request('DELETE', '/containers/web/delete')
    await waitFor(() => !existsSync(join(directory, uuid)), { what: 'the history to go' })
  })
})

it('the longest usage history fits into one answer of the agent', () => {
  const figures = Array<number>(1440).fill(1e15)
  const columns = [
    'cpuUsagePct',
    'memoryBytes',
    'diskBytes',
    'networkRxRate',
    'networkTxRate',
    'ioReadRate',
    'ioWriteRate',
  ]
  const history = History.fromPartial(Object.fromEntries(columns.map((column) => [column, figures])))
  expect(History.encode(history).finish().length).to.be.below(64 * 1024)
})
