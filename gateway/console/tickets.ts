import { randomBytes } from 'node:crypto'
import { digestKey } from '../access/key-secret.js'
import { perMinute, RateLimit, rateLimited } from '../../shared/rate-limit.js'
import type { Store } from '../store/store.js'
import { steadyClock } from '../../shared/steady-clock.js'

/** The rights of a ticket. */
export interface Grant {
  readonly kind: 'ssh' | 'vnc'
  readonly guestUuid: string
  /** Its caller, as `Principal.ref`. */
  readonly principal: string
  /** The credential that created it: see `credentialOf`. */
  readonly credential: string
}

interface ConsoleTicket extends Grant {
  /** ms since 1970. */
  readonly expiresAtMs: number
}

export const ticketSeconds = 60
/** For each container, since one key may request consoles of all customers. */
export const ticketsPerMinute = 10

/** Tickets for one console each, which last a minute; the store has only their digests. */
export class ConsoleTickets {
  readonly #limit = new RateLimit(perMinute(ticketsPerMinute))

  /** @param now ms since 1970 */
  constructor(
    private readonly store: Store,
    private readonly now: () => number = steadyClock.now,
  ) {}

  /** @param share the caller it counts for, see `Holding`. @throws {BerthError} `rate_limited`, `store_unavailable` */
  async issue(grant: Grant, share = grant.principal): Promise<string> {
    const waitMs = this.#limit.take(`${share} ${grant.guestUuid}`)
    if (waitMs > 0)
      throw rateLimited(`more than ${ticketsPerMinute} tickets a minute for this container: try again later`, waitMs)
    const ticket = randomBytes(32).toString('base64url')
    const kept: ConsoleTicket = { ...grant, expiresAtMs: this.now() + ticketSeconds * 1000 }
    await this.store.run('keep a ticket', (client) =>
      client.set(this.#key(ticket), JSON.stringify(kept), {
        expiration: { type: 'EX', value: ticketSeconds },
      }),
    )
    return ticket
  }

  /**
   * Uses up a ticket.
   * @returns undefined if there is no such ticket of this kind
   * @throws {BerthError} `store_unavailable`
   */
  async redeem(ticket: string, kind: Grant['kind']): Promise<Grant | undefined> {
    const text = await this.store.run('take a ticket', (client) => client.getDel(this.#key(ticket)))
    if (text === null) return undefined
    const { expiresAtMs, ...grant } = JSON.parse(text) as ConsoleTicket
    return expiresAtMs > this.now() && grant.kind === kind ? grant : undefined
  }

  #key(ticket: string): string {
    return this.store.key('ticket', digestKey(ticket))
  }
}
