import { randomBytes } from 'node:crypto'
import { digestKey } from '../access/key-secret.js'
import { perMinute, RateLimit, rateLimited } from '../../shared/rate-limit.js'
import type { Store } from '../store/store.js'
import { steadyClock } from '../../shared/steady-clock.js'

/** The rights that a ticket gives. */
export interface Grant {
  readonly kind: 'ssh' | 'vnc'
  readonly guestUuid: string
  /** `Principal.ref` of the caller who requested the ticket. */
  readonly principal: string
  /** Credential with which the ticket was requested, see `credentialOf`. */
  readonly credential: string
  /** Program and arguments that may be run without a terminal. `undefined`: the ticket is for a console. */
  readonly command?: readonly string[]
}

interface ConsoleTicket extends Grant {
  /** Time in ms since 1970 when the ticket expires. */
  readonly expiresAtMs: number
}

export const ticketSeconds = 60
/** Maximum tickets per minute for a caller and one container. One key can serve many customers with many containers. */
export const ticketsPerMinute = 10

/** Tickets for consoles. A ticket can be used once, within a minute. The store contains only digests of tickets. */
export class ConsoleTickets {
  readonly #limit = new RateLimit(perMinute(ticketsPerMinute))

  /** @param now returns the present time in ms since 1970 */
  constructor(
    private readonly store: Store,
    private readonly now: () => number = steadyClock.now,
  ) {}

  /**
   * Creates a ticket.
   * @param share `Principal.root` of the caller: callers with the same root share one limit of tickets per minute
   * @throws {BerthError} `rate_limited`, `store_unavailable`
   */
  async issue(grant: Grant, share = grant.principal): Promise<string> {
    const waitMs = this.#limit.take(`${share} ${grant.guestUuid}`)
    if (waitMs > 0)
      throw rateLimited(`more than ${ticketsPerMinute} tickets a minute for this container: try again later`, waitMs)
    const ticket = randomBytes(32).toString('base64url')
    const kept: ConsoleTicket = { ...grant, expiresAtMs: this.now() + ticketSeconds * 1000 }
    await this.store.run('store a ticket', (client) =>
      client.set(this.#key(ticket), JSON.stringify(kept), {
        expiration: { type: 'EX', value: ticketSeconds },
      }),
    )
    return ticket
  }

  /**
   * Uses a ticket, which then becomes invalid.
   * @returns undefined if no valid ticket of this kind exists
   * @throws {BerthError} `store_unavailable`
   */
  async redeem(ticket: string, kind: Grant['kind']): Promise<Grant | undefined> {
    const text = await this.store.run('redeem a ticket', (client) => client.getDel(this.#key(ticket)))
    if (text === null) return undefined
    const { expiresAtMs, ...grant } = JSON.parse(text) as ConsoleTicket
    return expiresAtMs > this.now() && grant.kind === kind ? grant : undefined
  }

  #key(ticket: string): string {
    return this.store.key('ticket', digestKey(ticket))
  }
}

const maxNameLength = 100

/**
 * Describes the use of a console for the audit log. The text contains the name of a program, but not its arguments,
 * which can be secret.
 */
export function describeUse(mode: string, { command }: Pick<Grant, 'command'>): string {
  return command === undefined ? mode : `run ${JSON.stringify(command[0]).slice(1, -1).slice(0, maxNameLength)}`
}
