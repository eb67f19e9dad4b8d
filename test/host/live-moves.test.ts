import { expect } from 'chai'
import Database from 'better-sqlite3'
import { rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { QmpConnection } from '../../agent/drivers/qemu/qmp/connection.js'
import { objectOf } from '../../agent/drivers/qemu/qmp/messages.js'
import type { GatewayReply } from '../support/gateway/gateway-process.js'
import { sshInto } from '../support/guests/ssh-into.js'
import type { FleetHost } from '../support/host/fleet-host.js'
import { FleetPair, machinePids, type GuestRow } from '../support/host/fleet-pair.js'
import { waitFor } from '../support/wait.js'

const password = 'a-Password-1'
/** Bandwidth limit in Mbit/s at which the transfer of the guest's memory takes some seconds. */
const slow = 48

interface BegunMove {
  readonly reply: GatewayReply
  readonly from: FleetHost
  readonly to: FleetHost
  /** Counter in the memory of the guest before the move. */
  readonly count: number
}

/** Moves of one virtual machine that runs all the time, between two real agents. */
describe('a gateway that moves running virtual machines', function () {
  const pair = new FleetPair('lv', { bridge: 'btest-lv', prefix: '198.18.152' })
  const { first, second } = pair
  let guest: GuestRow
  let boot: string

  before(async () => {
    await pair.open()
    const machine = { template_id: 'debian-12-kvm', virtualization: 'kvm', ram_mb: 128, vcpu: 1 }
    guest = await pair.create('live', { ...machine, ssh_auth_mode: 'password', ssh_password: password })
    boot = await readBoot(first)
    const count = 'i=0; while :; do i=$((i+1)); echo $i > /run/count; usleep 100000; done'
    await inside(
      first,
      `(${count}) >/dev/null 2>&1 & head -c 3000000 /dev/urandom > /data/file; md5sum /data/file > /data/sum`,
    )
  })
  after(() => pair.close())

  /** Runs a command in the guest through its mapped port, at the address of its host. */
  async function inside(host: FleetHost, command: string): Promise<string> {
    const { ssh_port: port } = await pair.rowOf(guest.name)
    return sshInto({ address: host.address.split(':')[0]!, port, password }, command)
  }
  const readBoot = (host: FleetHost): Promise<string> => inside(host, 'cat /proc/sys/kernel/random/boot_id')
  const readCount = async (host: FleetHost): Promise<number> => Number(await inside(host, 'cat /run/count'))

  /** Expects that the guest runs only on this host, and has continued since `count` without a reboot. */
  async function expectContinued(host: FleetHost, count: number): Promise<void> {
    await pair.expectAt(host, guest)
    expect(machinePids(guest)).to.have.length(1)
    expect(await readBoot(host), pair.logs()).to.equal(boot)
    await waitFor(async () => (await readCount(host)) > count)
    expect(await inside(host, 'echo 3 > /proc/sys/vm/drop_caches; md5sum -c /data/sum')).to.equal('/data/file: OK')
  }

  /** Begins a move away from the guest's present host. */
  async function begin(more: object = {}): Promise<BegunMove> {
    const from = await pair.hostOf(guest.name)
    const to = pair.otherThan(from)
    const count = await readCount(from)
    const reply = await pair.migrate(guest, { host_id: pair.idOf(to), ...more })
    expect(reply.status, JSON.stringify(reply.body)).to.equal(202)
    return { reply, from, to, count }
  }

  /** Begins a move, and waits until the guest's memory is being sent. */
  async function beginSlowly(): Promise<BegunMove> {
    const move = await begin({ bandwidth_mbps: slow })
    const isSending = async (): Promise<boolean> =>
      /^memory: /.test((await pair.readTask(move.reply))['stage'] as string)
    await waitFor(isSending, { what: () => pair.logs() })
    return move
  }

  /** Begins moves until the target's agent is stopped before the hand-over of a move. The source then waits with a paused guest. */
  async function beginHeld(): Promise<BegunMove> {
    for (;;) {
      const move = await begin()
      const { reply, from, to } = move
      const hasLeft = (): boolean => ['leaving', 'handed_over', 'absent'].includes(roleAt(from))
      await waitFor(hasLeft, { what: () => pair.logs(), intervalMs: 5 })
      process.kill(to.pid, 'SIGSTOP')
      await delay(1000) // what was sent before the target stopped takes effect
      if (roleAt(from) === 'leaving') return move
      process.kill(to.pid, 'SIGCONT')
      await pair.ended(reply)
    }
  }

  /** Returns the guest's role in the journal of a host's agent, such as `owner` or `leaving`; "" without an entry. */
  function roleAt(host: FleetHost): string {
    const db = new Database(join(host.instance.stateDir, 'journal.db'), { readonly: true })
    try {
      const query = db.prepare<[string], string>('SELECT role FROM guest_owners WHERE guest_uuid = ?').pluck()
      return query.get(guest.uuid) ?? ''
    } finally {
      db.close()
    }
  }

  /** Counts the hosts on which the guest executes instructions. */
  async function countRunning(): Promise<number> {
    const states = await Promise.all(pair.hosts.map((host) => readState(host)))
    return states.filter((state) => state === 'running').length
  }

  async function readState(host: FleetHost): Promise<unknown> {
    const path = join(host.directory, 'run/kvm', `${host.name}-${guest.id}`, 'qmp2')
    try {
      const monitor = await QmpConnection.open({ path, timeoutMs: 2000, greets: true })
      const state = objectOf(await monitor.execute('query-status'))?.['status']
      monitor.close()
      return state
    } catch {
      return undefined // the guest has no QEMU on this host
    }
  }

  /** Observes during `work` that the guest never runs on both hosts. */
  async function withOneCopy(work: () => Promise<void>): Promise<void> {
    const ended = new AbortController()
    let most = 0
    const watching = (async () => {
      while (!ended.signal.aborted) {
        most = Math.max(most, await countRunning())
        await delay(50)
      }
    })()
    try {
      await work()
    } finally {
      ended.abort()
      await watching
    }
    expect(most).to.equal(1)
  }

  it('moves a virtual machine with its memory, disk and network, without a reboot', async () => {
    const count = await readCount(first)
    const plan = await pair.migrate(guest, { host_id: pair.idOf(second), dry_run: true })
    expect(plan.body.data, JSON.stringify(plan.body)).to.include({ live: true, shuts_down: false })
    await withOneCopy(async () => {
      const task = await pair.ended(await pair.migrate(guest, { host_id: pair.idOf(second) }))
      expect(task['status'], `${JSON.stringify(task)}\n${pair.logs()}`).to.equal('done')
      expect(task['downtime_ms']).to.be.greaterThan(0)
      console.log(`      downtime ${task['downtime_ms']} ms`)
    })
    await expectContinued(second, count)
  })

  it('refuses the live move of a virtual machine whose file systems are frozen, because only its present host thaws them', async () => {
    const from = await pair.hostOf(guest.name)
    const mark = join(from.directory, 'run/kvm', `${from.name}-${guest.id}`, 'frozen')
    writeFileSync(mark, '')
    const plan = await pair.migrate(guest, { host_id: pair.idOf(pair.otherThan(from)), dry_run: true })
    rmSync(mark)
    expect([plan.status, plan.body.code], JSON.stringify(plan.body)).to.deep.equal([409, 'offline_required'])
  })

  it('keeps the guest running on its host if the move is canceled while its memory is sent', async () => {
    const { reply, from, count } = await beginSlowly()
    const canceled = await pair.gateway.request('DELETE', `/tasks/${reply.body.data.task_id}`)
    expect(canceled.status, JSON.stringify(canceled.body)).to.equal(200)
    expect((await pair.ended(reply))['status']).to.equal('canceled')
    await expectContinued(from, count)
  })

  it('keeps the guest running on its host if QEMU is killed on the target', async () => {
    const before = machinePids(guest)
    const { reply, from, count } = await beginSlowly()
    const arriving = machinePids(guest).filter((pid) => !before.includes(pid))
    expect(arriving).to.have.length(1)
    process.kill(arriving[0]!, 'SIGKILL')
    expect((await pair.ended(reply))['status']).to.equal('failed')
    await expectContinued(from, count)
  })

  it('keeps exactly one copy running if the agent of the source is killed while the memory is sent', async () => {
    const { reply, from, to, count } = await beginSlowly()
    await withOneCopy(async () => {
      await from.kill()
      from.start()
      await pair.untilOnline()
      const task = await pair.ended(reply) // the copy is repeated
      await expectContinued(task['status'] === 'done' ? to : from, count)
    })
  })

  it('lets the guest run again on its host if the agent of this host stops while the guest is paused', async () => {
    const { reply, from, to, count } = await beginHeld()
    await from.kill('SIGTERM')
    expect(await readState(from), pair.logs()).to.equal('running')
    process.kill(to.pid, 'SIGCONT')
    from.start()
    await pair.untilOnline()
    expect((await pair.ended(reply))['status']).to.equal('failed')
    await expectContinued(from, count)
  })

  it('completes a move with one copy if agents and gateway are killed before the change of the owner', async () => {
    const { reply, from, to, count } = await begin()
    await withOneCopy(async () => {
      await pair.gateway.kill()
      await waitFor(() => roleAt(from) === 'handed_over', { what: () => pair.logs() })
      expect(await countRunning()).to.equal(0)
      for (const host of [from, to]) {
        await host.kill()
        host.start()
      }
      pair.gateway.start()
      await pair.gateway.ready()
      await pair.untilOnline() // the gateway knows a task only while the host of the task is connected
      expect((await pair.ended(reply))['status']).to.equal('done')
      await expectContinued(to, count)
    })
  })

  it('continues the guest only on its new host if both agents are killed after the owner has changed', async () => {
    const { reply, from, to, count } = await begin()
    await withOneCopy(async () => {
      await waitFor(() => roleAt(to) === 'owner', { what: () => pair.logs(), intervalMs: 10 })
      for (const host of [to, from]) {
        await host.kill()
        host.start()
      }
      await pair.untilOnline()
      expect((await pair.ended(reply))['status']).to.equal('done')
      await expectContinued(to, count)
    })
  })
})
