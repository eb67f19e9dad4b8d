import { expect } from 'chai'
import { randomBytes } from 'node:crypto'
import { appendFileSync, existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import type { Body } from '../support/body.js'
import { endLeftGateway, GatewayProcess, type GatewayReply } from '../support/gateway/gateway-process.js'
import { installTinyImage } from '../support/guests/tiny-image.js'
import { FleetHost, makeSegment, removeSegment } from '../support/host/fleet-host.js'
import { finishDeletions, readInits, readInventory } from '../support/host/inventory.js'
import { readExpected } from '../support/host/journal-inventory.js'
import { scratchDirectory } from '../support/scratch.js'
import { waitFor } from '../support/wait.js'

const directory = '/var/tmp/btest-moves'
const segment = { bridge: 'btest-mv', prefix: '198.18.151' }
const mib = 1024 * 1024

interface Row {
  id: number
  uuid: string
  name: string
  status: string
  host_id: string
}

/** Two real agents in separate network namespaces, each with its own pool, and one real gateway. */
describe('a gateway that moves guests between two hosts', function () {
  const hosts = ['mva', 'mvb'].map((name, index) => new FleetHost({ name, index, segment, directory, poolGb: 4 })) as [
    FleetHost,
    FleetHost,
  ]
  const [first, second] = hosts
  const hostIds = new Map<FleetHost, string>()
  let gateway: GatewayProcess
  let wipe: () => void

  before(async () => {
    await endLeftGateway(join(directory, 'gateway'))
    for (const host of hosts) await host.remove()
    wipe = scratchDirectory('btest-moves').wipe
    makeSegment(segment)
    gateway = await GatewayProcess.create(join(directory, 'gateway'), `${segment.prefix}.1`)
    gateway.start()
    await gateway.ready()
    for (const host of hosts) await addHost(host)
    await waitFor(async () => (await list<{ status: string }>('/hosts')).every(({ status }) => status === 'online'), {
      what: () => `both online\n${hosts.map((host) => host.logTail()).join('\n')}`,
    })
  })

  after(async () => {
    await gateway?.close()
    for (const host of hosts) await host.remove()
    removeSegment(segment)
    wipe?.()
  })

  async function addHost(host: FleetHost): Promise<void> {
    await host.make()
    installTinyImage(host.instance.pool, 'debian-12-kvm')
    const { status, body } = await gateway.request('POST', '/hosts', {
      body: { name: host.name, address: host.address },
    })
    expect(status, JSON.stringify(body)).to.equal(201)
    hostIds.set(host, body.data.host.id)
    host.join(body.data.join_token)
    host.start()
  }

  const list = async <R>(path: string): Promise<R[]> =>
    ((await gateway.request('GET', path)).body as { data: R[] }).data
  const rowOf = async (name: string): Promise<Row> => {
    const row = (await list<Row>('/containers')).find((one) => one.name === name)
    if (!row) throw new Error(`no container ${name}`)
    return row
  }
  const logs = (): string => hosts.map((host) => host.logTail(6000)).join('\n') + gateway.logTail(6000)
  const diskOf = (host: FleetHost, { uuid }: Row): string => join(host.instance.pool, 'guests', uuid)

  async function ended({ status, body }: GatewayReply): Promise<Body> {
    expect(status, JSON.stringify(body)).to.equal(202)
    let task: Body = {}
    await waitFor(
      async () => {
        task = (await gateway.request('GET', `/tasks/${body.data.task_id}`)).body.data
        return !['pending', 'running'].includes(task['status'])
      },
      { what: () => `the end of ${JSON.stringify(task)}\n${logs()}` },
    )
    return task
  }

  async function create(name: string, more: object = {}): Promise<Row> {
    const limits = { vcpu: 0.5, ram_mb: 128, disk_gb: 1 }
    const body = { name, template_id: 'debian-12', ...limits, host_id: hostIds.get(first), ...more }
    const task = await ended(await gateway.request('POST', '/containers', { body }))
    expect(task['status'], JSON.stringify(task)).to.equal('done')
    return rowOf(name)
  }

  const migrate = ({ id }: Row, body: object): Promise<GatewayReply> =>
    gateway.request('POST', `/containers/${id}/migrate`, { body })

  async function expectAt(host: FleetHost, { name, uuid }: Row): Promise<void> {
    await waitFor(
      async () => {
        const row = await rowOf(name)
        return row.host_id === hostIds.get(host) && row.status === 'running'
      },
      { what: () => `${name} running on ${host.name}\n${logs()}` },
    )
    for (const other of hosts)
      if (other !== host) await waitFor(() => !existsSync(join(other.instance.pool, 'guests', uuid)))
    for (const one of hosts) {
      await finishDeletions(one.instance)
      await waitFor(
        () => JSON.stringify(readInventory(one.instance)) === JSON.stringify(readExpected(one.instance)),
      ).catch(() => undefined)
      expect(readInventory(one.instance), one.name).to.deep.equal(readExpected(one.instance))
    }
  }

  it('plans a move without changing anything', async () => {
    const guest = await create('planned')
    const { status, body } = await migrate(guest, { host_id: hostIds.get(second), dry_run: true })
    expect(status, JSON.stringify(body)).to.equal(200)
    expect(body.data).to.include({ task_id: '', to_host_id: hostIds.get(second), changes_addresses: true })
    expect(body.data.port_mappings).to.have.length(1)
    expect(readExpected(second.instance).ports).to.deep.equal([])
    await expectAt(first, guest)
  })

  it('moves a running container with disk, snapshots and settings, and interrupts it only briefly', async () => {
    const guest = await create('busy')
    const disk = diskOf(first, guest)
    writeFileSync(join(disk, 'root/large'), randomBytes(128 * mib))
    await gateway.request('POST', `/containers/${guest.id}/snapshots`, { body: { description: 'before' } })
    const rules = [{ direction: 'in', protocol: 'tcp', action: 'DROP', port: '25', network: 'all' }]
    await gateway.request('PUT', `/containers/${guest.id}/firewall`, {
      body: { enabled: true, default_action: 'ACCEPT', rules },
    })
    let isWriting = true
    const writing = (async () => {
      for (; isWriting; await delay(100)) {
        // Ends when the guest stops or its disk is gone: the loop stands for a program in the guest.
        if (readInits(first.instance).size === 0 || !existsSync(disk)) return
        appendFileSync(join(disk, 'root/log'), randomBytes(mib / 2))
      }
    })()
    const watched = watchDowntime()
    const task = await ended(await migrate(guest, { host_id: hostIds.get(second) }))
    expect(task['status'], `${JSON.stringify(task)}\n${logs()}`).to.equal('done')
    isWriting = false
    await writing
    await expectAt(second, guest)
    const downMs = await watched
    console.log(`      downtime ${downMs} ms, ${String(task['stage'])}`)
    const moved = diskOf(second, guest)
    expect(readFileSync(join(moved, 'root/large'))).to.have.length(128 * mib)
    const snapshots = (await gateway.request('GET', `/containers/${guest.id}/snapshots`)).body.data.snapshots as Body[]
    expect(snapshots).to.have.length(1)
    expect(readdirSync(join(second.instance.pool, 'snapshots', guest.uuid))).to.deep.equal([snapshots[0]?.['id']])
    const { body } = await gateway.request('GET', `/containers/${guest.id}/firewall`)
    expect(body.data.rules).to.have.length(1)
    const restored = await gateway.request('POST', `/containers/${guest.id}/snapshots/${snapshots[0]?.['id']}/restore`)
    expect(restored.status, JSON.stringify(restored.body)).to.equal(200)
  })

  /** Measures the time between the end of the guest's first process on one host and its start on the other host. */
  async function watchDowntime(): Promise<number> {
    const before = readInits(second.instance).size
    const source = readInits(first.instance).size
    let goneMs = 0
    for (;;) {
      if (goneMs === 0 && readInits(first.instance).size < source) goneMs = performance.now()
      if (readInits(second.instance).size > before) return Math.round(performance.now() - goneMs)
      await delay(5)
    }
  }

  it('moves a container back to its first host', async () => {
    const guest = await rowOf('busy')
    const task = await ended(await migrate(guest, {}))
    expect(task['status'], `${JSON.stringify(task)}\n${logs()}`).to.equal('done')
    await expectAt(first, guest)
  })

  it('keeps a container running on its host if the move is canceled', async () => {
    const guest = await rowOf('busy')
    const inits = readInits(first.instance)
    const reply = await migrate(guest, { host_id: hostIds.get(second), bandwidth_mbps: 8 })
    expect(reply.status, JSON.stringify(reply.body)).to.equal(202)
    const task = `/tasks/${reply.body.data.task_id}`
    await waitFor(async () => /MiB/.test((await gateway.request('GET', task)).body.data.stage))
    const refused = await gateway.request('POST', `/containers/${guest.id}/stop`)
    expect([refused.status, refused.body.code]).to.deep.equal([409, 'invalid_state'])
    const canceled = await gateway.request('DELETE', task)
    expect(canceled.status, JSON.stringify(canceled.body)).to.equal(200)
    expect((await ended(reply))['status']).to.equal('canceled')
    await waitFor(() => !existsSync(join(second.instance.pool, 'snapshots', guest.uuid)), { what: logs })
    await expectAt(first, guest)
    expect(readInits(first.instance)).to.deep.equal(inits)
  })

  for (const victim of ['source', 'target', 'gateway'] as const)
    it(`ends a move with exactly one running copy even if ${victim === 'gateway' ? 'the gateway' : `the agent of the ${victim} host`} is killed repeatedly`, async () => {
      const guest = await rowOf('busy')
      const from = (await rowOf('busy')).host_id === hostIds.get(first) ? first : second
      const to = from === first ? second : first
      const reply = await migrate(guest, { host_id: hostIds.get(to), bandwidth_mbps: 400 })
      expect(reply.status, JSON.stringify(reply.body)).to.equal(202)
      for (let n = 0; n < 3; n++) {
        await delay(150 + 250 * n)
        expect(readInits(first.instance).size + readInits(second.instance).size).to.be.at.most(2)
        const host = victim === 'source' ? from : to
        if (victim === 'gateway') {
          await gateway.kill()
          gateway.start()
          await gateway.ready()
        } else {
          await host.kill()
          host.start()
        }
      }
      await waitFor(async () => !(await list<{ status: string }>('/hosts')).some(({ status }) => status !== 'online'))
      const task = await ended(reply)
      await expectAt(task['status'] === 'done' ? to : from, guest)
    })

  /** Counts the QEMU processes of a virtual machine on both hosts. */
  const countMachines = ({ uuid }: Row): number =>
    readdirSync('/proc').filter((pid) => {
      if (!/^\d+$/.test(pid)) return false
      try {
        const [program = '', ...args] = readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0')
        return program.includes('qemu-system') && args.includes(uuid)
      } catch {
        return false // the process has ended
      }
    }).length
  /** The seed's instance id. If it changed, cloud-init would set up the system of the virtual machine again. */
  const readInstance = (host: FleetHost, guest: Row): string =>
    readFileSync(join(diskOf(host, guest), 'instance.json'), 'utf8')

  it('moves a running virtual machine, with disk and snapshots, only if the request permits a shutdown', async () => {
    const guest = await create('machine', { template_id: 'debian-12-kvm', virtualization: 'kvm', ram_mb: 256 })
    expect(countMachines(guest)).to.equal(1)
    const refused = await migrate(guest, { host_id: hostIds.get(second) })
    expect([refused.status, refused.body.code]).to.deep.equal([409, 'offline_required'])
    const taken = await gateway.request('POST', `/containers/${guest.id}/snapshots`, { body: { description: 'one' } })
    expect(taken.status, JSON.stringify(taken.body)).to.be.oneOf([200, 201, 202])
    const instance = readInstance(first, guest)
    const task = await ended(await migrate(guest, { host_id: hostIds.get(second), offline: true }))
    expect(task['status'], `${JSON.stringify(task)}\n${logs()}`).to.equal('done')
    await expectAt(second, guest)
    expect(countMachines(guest)).to.equal(1)
    expect(readInstance(second, guest)).to.equal(instance)
    const snapshots = (await gateway.request('GET', `/containers/${guest.id}/snapshots`)).body.data.snapshots as Body[]
    expect(snapshots).to.have.length(1)
    expect(readdirSync(join(second.instance.pool, 'snapshots', guest.uuid))).to.deep.equal([snapshots[0]?.['id']])
  })

  it('ends a move of a virtual machine with exactly one running copy even if its agents are killed repeatedly', async () => {
    const guest = await rowOf('machine')
    const reply = await migrate(guest, { host_id: hostIds.get(first), offline: true, bandwidth_mbps: 200 })
    expect(reply.status, JSON.stringify(reply.body)).to.equal(202)
    for (let n = 0; n < 3; n++) {
      await delay(300 + 1500 * n)
      expect(countMachines(guest)).to.be.at.most(1)
      await second.kill()
      second.start()
    }
    const task = await ended(reply)
    await expectAt(task['status'] === 'done' ? first : second, guest)
    expect(countMachines(guest)).to.equal(1)
  })
})
