import { execFileSync } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect } from 'chai'
import { pino } from 'pino'
import { AgentConfigSchema, type AgentConfig } from '../../agent/config.js'
import { Closers } from '../../agent/daemon/closers.js'
import { openDomain, type Domain } from '../../agent/daemon/domain.js'
import { openHost, type LinuxHost } from '../../agent/daemon/host.js'
import { purge } from '../../agent/daemon/purge.js'
import { setSnapshotSchedule } from '../../agent/guests/settings/snapshot-schedule.js'
import type { SubmitOperationRequest } from '../../proto/gen/berth/agent/v1/operation.js'
import { validateConfig } from '../../shared/config.js'
import { createOrder, createRequest, powerOrder } from '../support/agent-calls.js'
import { agentConfig } from '../support/agent-process.js'
import { installBusyboxImage } from '../support/busybox-image.js'
import { scratchDirectory } from '../support/scratch.js'

const log = pino({ level: 'silent' })

/** Real guests of LXC on btrfs, by the agent's own operations. */
describe('snapshots of guests', function () {
  this.timeout(120_000)
  const scratch = scratchDirectory('btest-gsn')
  const closers = new Closers()
  let config: AgentConfig
  let host: LinuxHost
  let domain: Domain
  let uuid: string
  let nowMs = Date.now()

  before(async () => {
    config = validateConfig(AgentConfigSchema, agentConfig(scratch.path, 'gsn'), 'test')
    makeDirectories()
    await purge(config, log) // what a crashed run left
    makeDirectories()
    host = await openHost(config, log, closers)
    await installBusyboxImage(config.storage.pool, 'debian-12')
    domain = await openDomain(host, { config, log, now: () => nowMs }, closers)
    await domain.images.sweep()
    await domain.reconciler.compareNetwork()
    domain.engine.recover()
    const { order } = createOrder(createRequest(1, 'kept'))
    await done(order)
    uuid = domain.context.store.list()[0]!.uuid
  })
  after(async () => {
    if (uuid) await done(powerOrder('delete', uuid).order)
    await closers.run()
    await purge(config, log)
    scratch.wipe()
  })

  const makeDirectories = (): void => {
    for (const directory of [config.state_dir, config.run_dir]) mkdirSync(directory, { recursive: true })
  }
  const done = async (order: SubmitOperationRequest['order']): Promise<string> => {
    const operationId = randomUUID()
    const { operation } = await domain.orders.submit({ operationId, requestedBy: 'test', order: order! })
    const { status, error } = await domain.engine.wait(operation.id)
    expect(status, error).to.equal('done')
    return operationId
  }
  const take = (): Promise<string> => done({ $case: 'snapshotCreate', value: { uuid, description: '' } })
  const restore = (snapshotId: string): Promise<string> =>
    done({ $case: 'snapshotRestore', value: { uuid, snapshotId } })
  const inside = (command: string): string =>
    execFileSync(
      'lxc-attach',
      ['-P', join(config.state_dir, 'lxc'), '-n', 'xgsn-1', '--clear-env', '--', '/bin/sh', '-c', command],
      { encoding: 'utf8', timeout: 20_000 },
    ).trim()
  const file = (name: string): string => join(host.volumes.pathOf(uuid), 'root', name)
  const record = () => domain.context.store.get(uuid)

  it('give back what was there, and nothing of later, to a guest that writes', async () => {
    inside(
      'echo before >/root/data; (i=0; while :; do i=$((i+1)); echo $i >>/root/log; done) >/dev/null 2>&1 &',
    )
    const id = await take()
    inside('echo after >/root/data; echo new >/root/later')
    const init = (await domain.context.drivers.lxc!.observe())[0]?.pid
    await restore(id)
    expect(inside('cat /root/data; ls /root')).to.equal('before\ndata\nlog')
    expect(record().status).to.equal('running')
    expect((await domain.context.drivers.lxc!.observe())[0]?.pid)
      .to.be.a('number')
      .and.not.equal(init)
    expect(await host.volumes.listSnapshots(uuid)).to.deep.equal([id])
    expect(record().snapshots[0]).to.include({ id, state: 'ready' })
    await done({ $case: 'snapshotDelete', value: { uuid, snapshotId: id } })
    expect([await host.volumes.listSnapshots(uuid), record().snapshots]).to.deep.equal([[], []])
    expect(inside('cat /root/data')).to.equal('before')
  })

  it('do the same for one that is stopped, which stays so', async () => {
    const id = await take()
    inside('echo after >/root/data; echo new >/root/later')
    await done(powerOrder('stop', uuid).order)
    await restore(id)
    expect(record()).to.include({ status: 'stopped', wanted: 'stopped' })
    expect(readFileSync(file('data'), 'utf8')).to.equal('before\n')
    expect(existsSync(file('later'))).to.equal(false)
    await done(powerOrder('start', uuid).order)
    expect(inside('cat /root/data')).to.equal('before')
  })

  it('are taken by its schedule, which drops its own alone', async () => {
    const hand = await take()
    const wanted = { enabled: true, intervalHours: 1, time: '00:00', retention: 1, createdBy: 'test' }
    await setSnapshotSchedule(domain.context, { uuid, ifRevision: 0 }, wanted)
    for (const word of ['first', 'second']) {
      inside(`echo ${word} >/root/data`)
      nowMs = record().snapshotSchedule.nextRunMs
      domain.snapshots.look()
      const [task] = domain.engine.store.listOpen().filter(({ action }) => action === 'snapshot-scheduled')
      expect(await domain.engine.wait(task!.id)).to.include({ status: 'done', requestedBy: 'schedule' })
    }
    const [scheduled, ...more] = record().snapshots.filter((snapshot) => snapshot.scheduled)
    expect(more).to.deep.equal([])
    expect(scheduled).to.include({ scheduled: true, createdBy: 'schedule', createdAtMs: nowMs })
    expect(await host.volumes.listSnapshots(uuid)).to.include.members([hand, scheduled!.id])
    expect(await host.volumes.listSnapshots(uuid)).to.have.length(record().snapshots.length)
    inside('echo third >/root/data')
    await restore(scheduled!.id)
    expect(inside('cat /root/data')).to.equal('second')
  })
})
