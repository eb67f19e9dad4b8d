import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect } from 'chai'
import type { Domain } from '../../agent/daemon/domain.js'
import type { LinuxHost } from '../../agent/daemon/host.js'
import { setSnapshotSchedule } from '../../agent/guests/settings/snapshot-schedule.js'
import { volumeLimitOf } from '../../agent/guests/snapshots/volume-bound.js'
import { powerOrder, reinstallOrder, resetPasswordOrder } from '../support/host/agent-calls.js'
import { RealDomain } from '../support/host/real-domain.js'
import { waitFor } from '../support/wait.js'

/** Tests real containers on btrfs with the operations of the agent. */
describe('snapshots of guests', function () {
  const real = new RealDomain('gsn')
  let nowMs = Date.now()
  let domain: Domain
  let host: LinuxHost
  let uuid: string

  before(async () => {
    real.now = () => nowMs
    await real.open()
    ;({ domain, host } = real)
    uuid = await real.create('kept')
  })
  after(() => real.close())

  const take = (): Promise<string> => real.done({ $case: 'snapshotCreate', value: { uuid, description: '' } })
  const restore = (snapshotId: string): Promise<string> =>
    real.done({ $case: 'snapshotRestore', value: { uuid, snapshotId } })
  const inside = (command: string): string => real.inside(uuid, command)
  const file = (name: string): string => join(host.volumes.pathOf(uuid), 'root', name)
  const record = () => real.record(uuid)

  it('restore exactly the earlier content of a running guest that writes to its disk', async () => {
    inside('echo before >/root/data; (i=0; while :; do i=$((i+1)); echo $i >>/root/log; done) >/dev/null 2>&1 &')
    const id = await take()
    inside('echo after >/root/data; echo new >/root/later')
    const init = (await domain.context.machines.findDriver('lxc')!.observe())[0]?.pid
    await restore(id)
    expect(inside('cat /root/data; ls /root')).to.equal('before\ndata\nlog')
    expect(record().status).to.equal('running')
    expect((await domain.context.machines.findDriver('lxc')!.observe())[0]?.pid)
      .to.be.a('number')
      .and.not.equal(init)
    expect(await host.volumes.listSnapshots(uuid)).to.deep.equal([id])
    expect(record().snapshots[0]).to.include({ id, state: 'ready' })
    await real.done({ $case: 'snapshotDelete', value: { uuid, snapshotId: id } })
    expect([await host.volumes.listSnapshots(uuid), record().snapshots]).to.deep.equal([[], []])
    expect(inside('cat /root/data')).to.equal('before')
  })

  it('restore exactly the earlier content of a stopped guest, which stays stopped', async () => {
    const id = await take()
    inside('echo after >/root/data; echo new >/root/later')
    await real.done(powerOrder('stop', uuid).order)
    await restore(id)
    expect(record()).to.include({ status: 'stopped', wanted: 'stopped' })
    expect(readFileSync(file('data'), 'utf8')).to.equal('before\n')
    expect(existsSync(file('later'))).to.equal(false)
    await real.done(powerOrder('start', uuid).order)
    expect(inside('cat /root/data')).to.equal('before')
  })

  it('do not reduce the disk size after a rewrite of the disk, a restore and a reinstallation', async () => {
    const bought = 1024
    const own = await real.create('full')
    const run = (command: string): string => real.inside(own, command)
    const fill = (name: string, megabytes: number): string =>
      real.tries(own, `dd if=/dev/zero of=/root/${name} bs=1M count=${megabytes} conv=fsync,notrunc 2>&1; true`)
    const limitMib = (): number => volumeLimitOf(domain.context.machines, real.record(own)) / 1024 ** 2
    const order = async ($case: 'snapshotCreate' | 'snapshotRestore' | 'snapshotDelete', value: object) =>
      real.done({ $case, value: { uuid: own, ...value } } as never)

    expect(limitMib()).to.equal(bought)
    expect(fill('data', 600)).to.match(/600\+0 records out/)
    const snapshotId = await order('snapshotCreate', { description: '' })
    expect(limitMib()).to.be.within(bought + 600, bought + 610)
    expect(fill('data', 600)).to.match(/600\+0 records out/) // the guest rewrites all data
    expect(fill('more', 400)).to.match(/400\+0 records out/) // the guest fills its disk
    expect(fill('beyond', 200)).to.match(/quota exceeded/i)
    await order('snapshotRestore', { snapshotId })
    expect(run('ls /root')).to.equal('data')
    expect(fill('more', 400)).to.match(/400\+0 records out/)
    await real.done(resetPasswordOrder(own, { password: 'another1' }).order)
    await real.done(reinstallOrder(own, { templateId: 'debian-12' }).order)
    expect(fill('more', 1000)).to.match(/1000\+0 records out/)
    await order('snapshotDelete', { snapshotId })
    await waitFor(async () => (await domain.reconciler.pass(), limitMib() === bought), {
      what: () => String(limitMib()),
    })
    expect(await host.volumes.ensureLimits(new Map([[own, bought * 1024 ** 2]]))).to.deep.equal([])
    expect(fill('beyond', 100)).to.match(/quota exceeded/i)
  })

  it('are created by a schedule that deletes only its own snapshots', async () => {
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
