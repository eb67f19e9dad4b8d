import { expect } from 'chai'
import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { randomUUID } from 'node:crypto'
import { join } from 'node:path'
import type { Guest } from '../../proto/gen/berth/agent/v1/guest.js'
import { call, createGuest, createRequest, operationDone, powerOrder, submit } from '../support/host/agent-calls.js'
import { AgentProcess } from '../support/host/agent-process.js'
import { installBusyboxImage } from '../support/guests/busybox-image.js'
import { processes, readInits, readInventory, type Instance } from '../support/host/inventory.js'
import { readExpected } from '../support/host/journal-inventory.js'
import { freezeGuest } from '../../agent/drivers/lxc/freeze.js'
import { readCgroupLayout } from '../../agent/host/process/cgroup.js'
import { unmount } from '../../agent/host/disk/mount.js'
import { killIfThere } from '../support/kill.js'
import { patienceMs, waitFor } from '../support/wait.js'
import { WatchedHost } from '../support/host/watched-host.js'

describe('guests after crashes, shutdowns and power failures', function () {
  let agent: AgentProcess
  let instance: Instance
  let watched: WatchedHost

  before(async () => {
    agent = await AgentProcess.create('e', {
      reconcile_interval_seconds: 3600,
      metrics: { guest_interval_seconds: 3600 },
    })
    instance = {
      stateDir: join(agent.directory, 'state'),
      pool: join(agent.directory, 'pool'),
      table: 'btest_e',
      interfacePrefix: 'xe',
    }
    await agent.start()
    await agent.ready()
    await agent.kill('SIGTERM')
    await installBusyboxImage(instance.pool, 'debian-12')
    await agent.start()
    await agent.ready()
    const [client, operations] = [agent.guests(), agent.operations()]
    for (const id of [1, 2, 3]) {
      const { operation } = await createGuest(operations, createRequest(id, `guest-${id}`))
      await operationDone(operations, operation!.id)
    }
    client.close()
    operations.close()
  })

  beforeEach(() => {
    watched = new WatchedHost(agent.watch())
  })

  afterEach(() => watched.close())

  after(() => agent?.destroy())

  const lxc = (id: number, ...command: string[]): void =>
    void execFileSync(
      'lxc-attach',
      ['-P', join(instance.stateDir, 'lxc'), '-n', `xe-${id}`, '--clear-env', '--', ...command],
      { timeout: patienceMs },
    )
  const untilStatus = (id: number, status: string): Promise<Guest> =>
    waitFor(() => watched.guests().find((g) => g.id === id && g.status === status), {
      what: () => `guest ${id} ${status}: ${JSON.stringify(watched.guests().map((g) => [g.id, g.status]))}`,
    })

  it('stay stopped if they shut themselves down', async () => {
    lxc(1, 'poweroff', '-f')
    const { statusReason } = await untilStatus(1, 'stopped')
    expect(statusReason).to.equal('shut down from inside')
    expect(readInits(instance).has('xe-1')).to.equal(false)
  })

  it('are started again if their LXC monitor is killed', async () => {
    const before = readInits(instance).get('xe-2')
    const monitor = processes().find((p) => p.command === `[lxc monitor] ${join(instance.stateDir, 'lxc')} xe-2`)
    process.kill(monitor!.pid, 'SIGKILL')
    await waitFor(() => ![undefined, before].includes(readInits(instance).get('xe-2')), {
      what: 'a new init',
    })
    await untilStatus(2, 'running')
  })

  /** Command that fills the memory of a guest: tail(1) reads an endless line from /dev/zero. */
  const eat = 'exec /bin/busybox tail /dev/zero'

  it('are started again and cause an alert if their first process runs out of memory', async () => {
    const { uuid } = await untilStatus(2, 'running')
    const root = join(instance.pool, 'guests', uuid)
    rmSync(join(root, 'sbin/init'))
    const script = `#!/bin/sh\nuntil rm /root/eat 2>/dev/null; do sleep 0.2; done\n${eat}\n`
    writeFileSync(join(root, 'sbin/init'), script, { mode: 0o755 })
    const operations = agent.operations()
    const { operation } = await submit(operations, powerOrder('restart', uuid))
    await operationDone(operations, operation!.id)
    operations.close()
    const before = readInits(instance).get('xe-2')
    writeFileSync(join(root, 'root/eat'), '')
    const alert = await waitFor(() => watched.alerts().find(({ guestId }) => guestId === 2), {
      what: () => `an alert\n${agent.logTail()}`,
    })
    expect(alert).to.include({ type: 'out_of_memory', severity: 'high', count: 1 })
    expect(alert.detail).to.equal('the guest was killed: the memory limit of 256 MB was reached')
    await waitFor(() => ![undefined, before].includes(readInits(instance).get('xe-2')), {
      what: 'a new first process',
    })
    await untilStatus(2, 'running')
  })

  it('keep running and cause an alert if a process other than the first process runs out of memory', async () => {
    await agent.kill('SIGTERM')
    Object.assign(agent.config, { metrics: { guest_interval_seconds: 1 } })
    await agent.start()
    await agent.ready()
    watched.close()
    watched = new WatchedHost(agent.watch())
    const { uuid } = await untilStatus(3, 'running')
    const client = agent.guests()
    await waitFor(async () => (await call(client.getGuestUsage.bind(client), { uuid })).memoryUsageBytes > 0, {
      what: 'a first sample',
    })
    client.close()
    const init = readInits(instance).get('xe-3')
    expect(() => lxc(3, 'sh', '-c', eat), 'killed').to.throw()
    const alert = await waitFor(() => watched.alerts().find(({ guestId }) => guestId === 3), {
      what: () => `an alert\n${agent.logTail()}`,
    })
    expect(alert).to.include({ type: 'out_of_memory', severity: 'medium', count: 1 })
    expect(alert.detail).to.equal(
      'the memory limit of 256 MB was reached, and the kernel killed 1 process of the guest',
    )
    expect([readInits(instance).get('xe-3'), (await untilStatus(3, 'running')).statusReason]).to.deep.equal([init, ''])
    await agent.kill('SIGTERM')
    Object.assign(agent.config, { metrics: { guest_interval_seconds: 3600 } })
    await agent.start()
    await agent.ready()
  })

  it('run again with their network rules when the host has rebooted', async () => {
    await agent.kill('SIGKILL')
    await hostGoesDown(instance)
    await agent.start()
    await agent.ready()
    watched.close()
    watched = new WatchedHost(agent.watch())
    for (const id of [2, 3]) await untilStatus(id, 'running')
    await untilStatus(1, 'stopped')
    await waitFor(() => readInits(instance).size === 2, { what: 'both guests' })
    expect(readInventory(instance)).to.deep.equal(readExpected(instance))
  })

  it('have usage figures soon after a restart, before the next regular sample', async () => {
    const client = agent.guests()
    const { uuid } = await untilStatus(3, 'running')
    const operations = agent.operations()
    const { operation } = await submit(operations, powerOrder('restart', uuid))
    await operationDone(operations, operation!.id)
    await waitFor(
      async () => (await call(client.getGuestUsage.bind(client), { uuid })).memoryUsageBytes > 0,
      { what: 'usage' }, // the usage must appear long before the next regular sample
    )
    client.close()
    operations.close()
  })

  it('are thawed when the agent restarts if the agent was killed while they were frozen', async () => {
    await untilStatus(3, 'running')
    expect(await freezeGuest(readCgroupLayout(), 'xe-3', 5000)).to.equal(true)
    await agent.kill('SIGKILL')
    await agent.start()
    await agent.ready()
    lxc(3, 'cat', '/etc/passwd')
  })

  it('are deleted again if a power failure undid the deletion of their disk; unknown disks are kept', async () => {
    const operations = agent.operations()
    const created = await createGuest(operations, createRequest(4, 'guest-4'))
    await operationDone(operations, created.operation!.id)
    const { uuid } = created.guest!
    const { operation } = await submit(operations, powerOrder('delete', uuid))
    await operationDone(operations, operation!.id)
    operations.close()
    const unknown = join(instance.pool, 'guests', randomUUID())
    const known = join(instance.pool, 'guests', uuid)
    for (const path of [known, unknown])
      execFileSync('btrfs', ['-q', 'subvolume', 'snapshot', join(instance.pool, 'images/debian-12'), path])
    const snapshots = join(instance.pool, 'snapshots', uuid)
    mkdirSync(snapshots)
    execFileSync('btrfs', ['-q', 'subvolume', 'snapshot', '-r', known, join(snapshots, 's1')])
    await agent.kill('SIGTERM')
    await agent.start()
    await agent.ready()
    await waitFor(() => !existsSync(known) && !existsSync(snapshots), { what: 'the deleted one to go' })
    expect(existsSync(unknown)).to.equal(true)
    execFileSync('btrfs', ['-q', 'subvolume', 'delete', unknown])
  })
})

/** Simulates a reboot: removes processes, interfaces, rules, mounts, and files in /run. */
async function hostGoesDown(instance: Instance): Promise<void> {
  for (const { pid, command } of processes())
    if (command.startsWith(`[lxc monitor] ${join(instance.stateDir, 'lxc')} `)) killIfThere(pid)
  for (const family of ['ip', 'inet', 'bridge']) execFileSync('nft', ['delete', 'table', family, instance.table])
  execFileSync('ip', ['link', 'delete', 'btest-e'])
  rmSync(join(instance.stateDir, '../run'), { recursive: true })
  await unmount(instance.pool)
}
