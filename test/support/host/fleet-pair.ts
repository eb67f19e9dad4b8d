import { expect } from 'chai'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Body } from '../body.js'
import { endLeftGateway, GatewayProcess, type GatewayReply } from '../gateway/gateway-process.js'
import { installTinyImage } from '../guests/tiny-image.js'
import { scratchDirectory } from '../scratch.js'
import { waitFor } from '../wait.js'
import { FleetHost, makeSegment, removeSegment, type Segment } from './fleet-host.js'
import { finishDeletions, readInventory } from './inventory.js'
import { readExpected } from './journal-inventory.js'

export interface GuestRow {
  readonly id: number
  readonly uuid: string
  readonly name: string
  readonly status: string
  readonly host_id: string
  readonly ssh_port: number
}

interface FleetPairOptions {
  readonly poolGb?: number
  /** Returns further settings of the section `network` in agent.yaml. @param letter `a` or `b` */
  readonly networkOf?: (letter: string) => Record<string, unknown>
}

/** Two real agents in separate network namespaces, each with its own pool, and one real gateway. */
export class FleetPair {
  readonly first: FleetHost
  readonly second: FleetHost
  gateway!: GatewayProcess
  readonly #hostIds = new Map<FleetHost, string>()
  readonly #directory: string
  #wipe: (() => void) | undefined

  constructor(
    private readonly name: string,
    readonly segment: Segment,
    { poolGb = 4, networkOf = () => ({}) }: FleetPairOptions = {},
  ) {
    this.#directory = `/var/tmp/btest-${name}`
    const [first, second] = ['a', 'b'].map(
      (letter, index) =>
        new FleetHost({
          name: `${name}${letter}`,
          index,
          segment,
          directory: this.#directory,
          poolGb,
          network: networkOf(letter),
        }),
    )
    this.first = first!
    this.second = second!
  }

  get hosts(): readonly FleetHost[] {
    return [this.first, this.second]
  }

  async open(): Promise<void> {
    const state = join(this.#directory, 'gateway')
    await endLeftGateway(state)
    for (const host of this.hosts) await host.remove()
    this.#wipe = scratchDirectory(`btest-${this.name}`).wipe
    makeSegment(this.segment)
    this.gateway = await GatewayProcess.create(state, `${this.segment.prefix}.1`)
    this.gateway.start()
    await this.gateway.ready()
    for (const host of this.hosts) await this.#add(host)
    await this.untilOnline()
  }

  async close(): Promise<void> {
    await this.gateway?.close()
    for (const host of this.hosts) await host.remove()
    removeSegment(this.segment)
    this.#wipe?.()
  }

  async #add(host: FleetHost): Promise<void> {
    await host.make()
    installTinyImage(host.instance.pool, 'debian-12-kvm')
    const { status, body } = await this.gateway.request('POST', '/hosts', {
      body: { name: host.name, address: host.address },
    })
    expect(status, JSON.stringify(body)).to.equal(201)
    this.#hostIds.set(host, body.data.host.id)
    host.join(body.data.join_token)
    host.start()
  }

  async untilOnline(): Promise<void> {
    const isOnline = async (): Promise<boolean> =>
      (await this.list<{ status: string }>('/hosts')).every(({ status }) => status === 'online')
    await waitFor(isOnline, { what: () => `both hosts online\n${this.logs()}` })
  }

  idOf(host: FleetHost): string {
    return this.#hostIds.get(host) ?? ''
  }

  otherThan(host: FleetHost): FleetHost {
    return host === this.first ? this.second : this.first
  }

  async list<R>(path: string): Promise<R[]> {
    return ((await this.gateway.request('GET', path)).body as { data: R[] }).data
  }

  async rowOf(name: string): Promise<GuestRow> {
    const row = (await this.list<GuestRow>('/containers')).find((one) => one.name === name)
    if (!row) throw new Error(`no container ${name}`)
    return row
  }

  async hostOf(name: string): Promise<FleetHost> {
    const { host_id: id } = await this.rowOf(name)
    return this.hosts.find((host) => this.idOf(host) === id)!
  }

  logs(): string {
    return this.hosts.map((host) => host.logTail(6000)).join('\n') + this.gateway.logTail(6000)
  }

  diskOf(host: FleetHost, { uuid }: GuestRow): string {
    return join(host.instance.pool, 'guests', uuid)
  }

  async readTask({ body }: GatewayReply): Promise<Body> {
    return (await this.gateway.request('GET', `/tasks/${body.data.task_id}`)).body.data
  }

  async ended(reply: GatewayReply): Promise<Body> {
    expect(reply.status, JSON.stringify(reply.body)).to.equal(202)
    let task: Body = {}
    const hasEnded = async (): Promise<boolean> => {
      task = await this.readTask(reply)
      return !['pending', 'running'].includes(task['status'])
    }
    await waitFor(hasEnded, { what: () => `the end of ${JSON.stringify(task)}\n${this.logs()}` })
    return task
  }

  async create(name: string, more: object = {}): Promise<GuestRow> {
    const limits = { vcpu: 0.5, ram_mb: 128, disk_gb: 1 }
    const body = { name, template_id: 'debian-12', ...limits, host_id: this.idOf(this.first), ...more }
    const task = await this.ended(await this.gateway.request('POST', '/containers', { body }))
    expect(task['status'], JSON.stringify(task)).to.equal('done')
    return this.rowOf(name)
  }

  migrate({ id }: GuestRow, body: object): Promise<GatewayReply> {
    return this.gateway.request('POST', `/containers/${id}/migrate`, { body })
  }

  /** Waits until the guest runs on this host, and the other host has nothing of it. */
  async expectAt(host: FleetHost, { name, uuid }: GuestRow): Promise<void> {
    const isAt = async (): Promise<boolean> => {
      const row = await this.rowOf(name)
      return row.host_id === this.idOf(host) && row.status === 'running'
    }
    await waitFor(isAt, { what: () => `${name} running on ${host.name}\n${this.logs()}` })
    const other = this.otherThan(host)
    await waitFor(() => !existsSync(join(other.instance.pool, 'guests', uuid)))
    for (const { name, instance } of this.hosts) {
      await finishDeletions(instance)
      const isConverged = (): boolean =>
        JSON.stringify(readInventory(instance)) === JSON.stringify(readExpected(instance))
      await waitFor(isConverged).catch(() => undefined)
      expect(readInventory(instance), name).to.deep.equal(readExpected(instance))
    }
  }
}

/** Returns the pids of a virtual machine's QEMU processes on all hosts of this machine. */
export function machinePids({ uuid }: Pick<GuestRow, 'uuid'>): number[] {
  return readdirSync('/proc').flatMap((pid) => {
    if (!/^\d+$/.test(pid)) return []
    try {
      const [program = '', ...args] = readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0')
      return program.includes('qemu-system') && args.includes(uuid) ? [Number(pid)] : []
    } catch {
      return [] // the process has ended
    }
  })
}
