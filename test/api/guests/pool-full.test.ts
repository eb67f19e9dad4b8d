import { expect } from 'chai'
import type { Guest } from '../../../proto/gen/berth/agent/v1/guest.js'
import type { LabAgent } from '../../support/memory/lab-agent.js'
import { startTestGateway, type Reply, type TestGateway } from '../../support/gateway/test-gateway.js'
import { waitFor } from '../../support/wait.js'

const gib = 1024 ** 3

describe('a full storage pool', function () {
  let gateway: TestGateway
  let agent: LabAgent
  let guest: Guest
  let snapshot: string

  before(async () => {
    gateway = await startTestGateway()
    await gateway.fleet.work('host-a')
    agent = gateway.fleet.agentOf('host-a')
  })
  after(() => gateway.close())
  beforeEach(async () => {
    use(1)
    guest = await gateway.fleet.addGuest()
    snapshot = (await post('snapshots')).body.data.id as string
    use(495)
  })

  const use = (usedGb: number): void => void (agent.host.pool = { totalBytes: 500 * gib, usedBytes: usedGb * gib })
  const post = (what: string, body?: unknown): Promise<Reply> =>
    gateway.request('POST', `/containers/${guest.id}/${what}`, body === undefined ? {} : { body })
  const warnings = async (): Promise<string[]> =>
    (await gateway.request('GET', '/host-report')).body.data.warnings as string[]
  const figure = async (name: string): Promise<number> => {
    const { text } = await gateway.request('GET', '/metrics')
    return Number(new RegExp(`^${name}\\{host="host-a"\\} (\\S+)$`, 'm').exec(text)?.[1])
  }

  for (const [what, send, code] of [
    [
      'a new container',
      () =>
        gateway.request('POST', '/containers', {
          body: { name: 'one-more', template_id: 'debian-12', disk_gb: 1, start: false },
        }),
      'resource_exhausted',
    ],
    [
      'a larger disk',
      () => gateway.request('PUT', `/containers/${guest.id}/resource-limit`, { body: { disk_gb: 20 } }),
      'resource_exhausted',
    ],
    ['a reinstall', () => post('reinstall', { template_id: 'debian-12' }), 'resource_exhausted'],
    ['a snapshot', () => post('snapshots'), 'storage_full'],
  ] as const)
    it(`refuses ${what}, and starts no operation`, async () => {
      const tasks = agent.domain.engine.stats()
      const { status, body } = await send()
      expect([status, body.code], JSON.stringify(body)).to.deep.equal([409, code])
      expect(body.message).to.match(/full: 5\.0 of 500\.0 GiB are free/)
      expect(agent.domain.engine.stats()).to.deep.equal(tasks)
    })

  it('does not prevent deletions, restores, stops and starts', async () => {
    for (const action of ['stop', 'start', `snapshots/${snapshot}/restore`])
      expect((await post(action)).status, action).to.be.within(200, 202)
    expect((await gateway.request('DELETE', `/containers/${guest.id}/snapshots/${snapshot}`)).status).to.equal(200)
    expect((await gateway.request('DELETE', `/containers/${guest.id}/delete`)).status).to.equal(202)
    await waitFor(() => agent.guests().every(({ uuid }) => uuid !== guest.uuid), { what: 'the guest gone' })
  })

  it('makes a scheduled snapshot fail, but not the next snapshot after space has become free', async () => {
    const body = { enabled: true, interval_hours: 1, time: '00:00' }
    expect((await post('snapshots/schedule', body)).status).to.equal(200)
    const run = async (): Promise<unknown> => {
      const { nextRunMs } = agent.domain.context.store.get(guest.uuid).snapshotSchedule
      agent.now = () => nextRunMs
      agent.domain.snapshots.look()
      const [task] = agent.domain.engine.store.listOpen()
      return agent.domain.engine.wait(task!.id)
    }
    expect(await run()).to.include({ status: 'failed', errorCode: 'storage_full' })
    use(1)
    expect(await run()).to.include({ status: 'done' })
    agent.now = Date.now
    await post('snapshots/schedule', { enabled: false })
  })

  it('causes a warning in the host report and in the metrics even before it is full', async () => {
    for (const [usedGb, expected] of [
      [400, []],
      [460, ['storage pool 92 % full, 40.0 of 500.0 GiB are free']],
    ] as const) {
      use(usedGb)
      await waitFor(async () => (await figure('berth_host_disk_used_bytes')) === usedGb * gib, {
        what: 'a sample',
      })
      expect(await warnings()).to.deep.equal(expected)
      expect(await figure('berth_host_warnings')).to.equal(expected.length)
    }
    expect(await figure('berth_host_disk_reserve_bytes')).to.equal(10 * gib)
    use(495)
    await waitFor(async () => (await warnings())[0]?.includes('new containers'), {
      what: 'the last warning',
    })
  })
})
