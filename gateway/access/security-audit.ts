import type { Logger } from 'pino'
import { SingleFlight } from '../../shared/async/single-flight.js'
import { securityUser } from '../../shared/abuse.js'
import { describeError } from '../../shared/errors.js'
import { steadyClock } from '../../shared/steady-clock.js'
import type { AuditLog } from './contract.js'
import type { FleetView, OperationView } from '../fleet/contract.js'
import type { Store } from '../store/store.js'

export interface SecurityAuditParts {
  readonly view: Pick<FleetView, 'operations' | 'findGuest'>
  readonly audit: AuditLog
  readonly store: Store
  readonly log: Logger
}

const everyMs = 5000
const day = 86_400
/** Maximum age in ms of an operation. Older operations are ignored, because they were recorded when they were new. */
const longestMs = 30 * day * 1000
/**
 * `known`: seconds for which the id of a recorded operation is stored, so that it is recorded only once. `claimed`:
 * seconds for which only one gateway may write the entry. After this time, another gateway may write it.
 */
const seconds = { known: 40 * day, claimed: 10 } as const

/**
 * Adds audit entries about the automatic actions of agents against abuse. The store decides which of several gateways
 * writes an entry. If that gateway dies before it has marked the entry as recorded, another one writes it again.
 */
export class SecurityAudit {
  readonly #known = new Set<string>()
  #timer: NodeJS.Timeout | undefined
  readonly #writing = new SingleFlight()

  constructor(private readonly parts: SecurityAuditParts) {}

  start(): void {
    this.#timer = setInterval(() => void this.look(), everyMs)
  }

  async stop(): Promise<void> {
    clearInterval(this.#timer)
    await this.#writing.settled()
  }

  /** Writes audit entries about new operations. If the store is down, the next check writes the entries. */
  look(): Promise<void> {
    return this.#writing.run(() => this.#look())
  }

  async #look(): Promise<void> {
    const { view, log } = this.parts
    const sinceMs = steadyClock.now() - longestMs
    const own = view.operations().filter(({ operation }) => operation.requestedBy === securityUser)
    const ids = new Set(own.map(({ operation }) => operation.id))
    for (const id of this.#known) if (!ids.has(id)) this.#known.delete(id)
    const fresh = own.filter(({ operation: { id, createdAtMs } }) => !this.#known.has(id) && createdAtMs > sinceMs)
    try {
      for (const one of fresh) if (await this.#write(one)) this.#known.add(one.operation.id)
    } catch (error) {
      log.warn({ reason: describeError(error) }, 'could not write the agents’ reactions to abuse to the audit log')
    }
  }

  /** @returns false if another gateway has claimed the operation */
  async #write({ operation, hostId }: OperationView): Promise<boolean> {
    const { store, audit } = this.parts
    const [written, claim] = ['written', 'claim'].map((name) => store.key('security-audit', name, operation.id)) as [
      string,
      string,
    ]
    const step = 'record a reaction to abuse'
    if ((await store.run(step, (client) => client.get(written))) !== null) return true
    const set = { condition: 'NX', expiration: { type: 'EX', value: seconds.claimed } } as const
    if ((await store.run(step, (client) => client.set(claim, '1', set))) === null) return false
    const { subject, id } = operation
    const target = subject?.name ?? ''
    const caller = { ref: securityUser, user: securityUser }
    const entry = await audit.begin({
      action: `container.${operation.action}`,
      caller,
      address: '',
      requestId: id,
      target,
    })
    const detail = `${this.#reasonOf(subject?.id ?? '')}, host ${hostId}, task ${id}`
    await audit.finish(entry, { success: true, target, detail, containerUuid: subject?.id })
    await store.run(step, (client) => client.set(written, '1', { expiration: { type: 'EX', value: seconds.known } }))
    return true
  }

  #reasonOf(uuid: string): string {
    return this.parts.view.findGuest(uuid)?.guest.policyReason || 'security'
  }
}
