import { setTimeout as delay } from 'node:timers/promises'
import type { FailoverLab } from './failover-lab.js'
import type { Findings } from './findings.js'
import { codeOf, type Writes } from './writes.js'

export interface CreatedGuest {
  readonly name: string
  readonly uuid: string
  readonly taskId: string
}

export interface GuestWritersOptions {
  /** Number of simultaneous creations. */
  readonly writers: number
  /** Mean pause in ms after a creation and after a deletion. */
  readonly pauseMs: number
  readonly random: () => number
}

/** Each writer keeps one of this many guests. Guests on hosts with a real agent are always deleted. */
const keptOf = 8
const size = { virtualization: 'lxc', template_id: 'debian-12', vcpu: 0.1, ram_mb: 128, disk_gb: 1 } as const

/** Creates and deletes guests, from many writers at once. Two writers use each host with a real agent. */
export class GuestWriters {
  /** Acknowledged creations, by name. */
  readonly created = new Map<string, CreatedGuest>()
  /** Names of guests whose deletion was acknowledged. */
  readonly deleted = new Set<string>()
  /** Names of guests whose creation or deletion has no known result. */
  readonly uncertain = new Set<string>()
  readonly #writers: Promise<void>[]
  #isEnded = false

  constructor(
    private readonly lab: FailoverLab,
    private readonly writes: Writes,
    private readonly findings: Findings,
    private readonly options: GuestWritersOptions,
  ) {
    this.#writers = Array.from({ length: options.writers }, (_, writer) => this.#run(writer))
  }

  /** Resolves when the result of every write is known. */
  async end(): Promise<void> {
    this.#isEnded = true
    await Promise.all(this.#writers)
  }

  async #run(writer: number): Promise<void> {
    const real = this.lab.hosts.filter(({ real: host }) => host !== undefined)
    const host = real[Math.floor(writer / 2)]
    for (let count = 0; !this.#isEnded; count++) {
      const name = `guest-${writer}-${count}`
      const guest = await this.#create(name, host && { host_id: host.id })
      await this.#pause()
      if (guest && (host !== undefined || count % keptOf !== 0)) await this.#delete(guest)
      await this.#pause()
    }
  }

  #pause(): Promise<void> {
    return this.#isEnded ? Promise.resolve() : delay(2 * this.options.pauseMs * this.options.random())
  }

  async #create(name: string, host: object = {}): Promise<CreatedGuest | undefined> {
    const request = { body: { name, ...size, ...host }, idempotencyKey: name }
    this.uncertain.add(name)
    const { outcome, reply } = await this.writes.make(() => this.lab.client.send('POST', '/containers', request))
    if (outcome !== 'unanswered') this.uncertain.delete(name)
    if (outcome !== 'acknowledged') {
      this.findings.unexpected.push(`creation of ${name}: ${outcome}, ${reply.status} ${codeOf(reply)}`)
      return undefined
    }
    const guest = { name, uuid: reply.body.data.uuid as string, taskId: reply.body.data.task_id as string }
    this.created.set(name, guest)
    return guest
  }

  async #delete({ name, uuid }: CreatedGuest): Promise<void> {
    this.uncertain.add(name)
    const send = () => this.lab.client.send('DELETE', `/containers/${uuid}/delete`)
    const { outcome, reply, attempts } = await this.writes.make(send, { isDone: ({ status }) => status === 404 })
    if (outcome === 'unanswered') return
    this.uncertain.delete(name)
    if (outcome === 'acknowledged') return void this.deleted.add(name)
    const list = reply.status === 404 ? this.findings.lost : this.findings.unexpected
    list.push(`guest ${name} at its deletion (request ${attempts}): ${reply.status} ${codeOf(reply)}`)
  }
}
