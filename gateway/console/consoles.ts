import type { Logger } from 'pino'
import { SingleFlight } from '../../shared/async/single-flight.js'
import type { Grants } from '../access/grants.js'
import { holdingOf, maySee, type Principal } from '../access/principal.js'
import { coversScope } from '../access/scopes.js'
import type { FleetView, GuestView } from '../fleet/contract.js'
import { statusOf } from '../fleet/guest-status.js'
import type { AccessPolicies } from '../policy/access-policy.js'
import type { Origin } from '../policy/source.js'
import { BerthError, conflict, notFound } from '../../shared/errors.js'
import { findFullRoom, type Holding, type Room } from '../../shared/fair-room.js'
import type { ConsoleSocket } from './console-socket.js'
import { endings, type ConsoleEnding } from './endings.js'
import type { Grant } from './tickets.js'
import { planTime } from './time-limits.js'

/** Maximum number of consoles that a caller may have open to one guest. */
const mostOfCaller = 5
/** Maximum numbers of open consoles to one guest (`guestRoom`) and through this gateway (`gatewayRoom`). */
const guestRoom: Room = { most: 10, perShare: 5, reserve: 2 }
const gatewayRoom: Room = { most: 500, perShare: 100, reserve: 50 }
const lookEveryMs = 1000

/** The caller that opened a console, the data of the request, and the rights that the ticket gave. */
export interface ConsoleHolder {
  readonly grant: Grant
  readonly caller: Principal
  /** Addresses and headers of the socket's request. */
  readonly origin: Origin
  readonly address: string
  readonly requestId: string
  /** Kind of console: `shell`, `serial` or `vnc`. */
  readonly mode: string
}

interface Entry extends Holding {
  readonly holder: ConsoleHolder
  socket: ConsoleSocket | undefined
  warned: boolean
}

export interface ConsolesParts {
  readonly view: Pick<FleetView, 'findGuest'>
  readonly grants: Grants
  readonly policies: Pick<AccessPolicies, 'judge'>
  readonly log: Logger
}

/**
 * The open consoles of this gateway. Every second, each console is checked: its credential, rights, guest and idle
 * time, and the access policy.
 */
export class Consoles {
  readonly #entries = new Set<Entry>()
  #closed = false
  #timer: NodeJS.Timeout | undefined
  readonly #looking = new SingleFlight()

  constructor(private readonly parts: ConsolesParts) {}

  get size(): number {
    return this.#entries.size
  }

  /**
   * Counts a console before it is opened.
   * @returns two functions: call `opened` with the socket of the open console, and `leave` after the console has ended
   * @throws {BerthError} `too_many_consoles`
   */
  enter(holder: ConsoleHolder): { opened: (socket: ConsoleSocket) => void; leave: () => void } {
    const holding = holdingOf(holder.caller)
    this.#checkRoom(holder.grant, holding)
    const entry: Entry = { ...holding, holder, socket: undefined, warned: false }
    this.#entries.add(entry)
    this.#timer ??= setInterval(() => void this.#looking.run(() => this.#look()), lookEveryMs).unref()
    return {
      opened: (socket) => {
        entry.socket = socket
        if (this.#closed) socket.end(endings.leaving, true)
      },
      leave: () => {
        this.#entries.delete(entry)
        if (this.#entries.size > 0) return
        clearInterval(this.#timer)
        this.#timer = undefined
      },
    }
  }

  /**
   * Checks that the caller who requested a ticket still has the rights, and that the guest can have a console.
   * @throws {BerthError} `unauthorized`, `not_found`, `invalid_state`, `policy_blocked`, `store_unavailable`
   */
  async check(grant: Grant): Promise<{ caller: Principal; guest: GuestView }> {
    const caller = await this.parts.grants.find(grant.credential)
    if (!caller || !mayUse(caller, grant)) throw invalidTicket()
    const guest = this.parts.view.findGuest(grant.guestUuid)
    if (!guest) throw notFound('container')
    checkGuest(guest)
    return { caller, guest }
  }

  /** Ends all open consoles, and consoles that open later. Resumable consoles continue on their hosts for a while. */
  closeAll(): void {
    this.#closed = true
    for (const { socket } of [...this.#entries]) socket?.end(endings.leaving, true)
  }

  #checkRoom({ guestUuid, principal }: Grant, holding: Holding): void {
    const ofGuest = [...this.#entries].filter(({ holder }) => holder.grant.guestUuid === guestUuid)
    const own = ofGuest.filter(({ holder }) => holder.grant.principal === principal)
    const atGuest = findFullRoom(ofGuest, holding, guestRoom)
    if (own.length >= mostOfCaller || atGuest === 'share')
      throw tooMany('too many of your consoles are open for this container')
    if (atGuest) throw tooMany('too many consoles are open for this container')
    const atGateway = findFullRoom(this.#entries, holding, gatewayRoom)
    if (atGateway)
      throw tooMany(atGateway === 'share' ? 'too many of your consoles are open' : 'too many consoles are open')
  }

  async #look(): Promise<void> {
    const nowMs = performance.now()
    try {
      for (const entry of [...this.#entries]) await this.#lookAt(entry, nowMs)
    } catch (err) {
      this.parts.log.error({ err }, 'could not check whether open consoles must be closed')
    }
  }

  async #lookAt(entry: Entry, nowMs: number): Promise<void> {
    const { socket, holder } = entry
    if (!socket || socket.hasEnded) return
    const revoked = await this.#findRevocation(holder)
    if (revoked) return socket.end(revoked)
    socket.look(nowMs)
    this.#lookAtTime(entry, socket, nowMs)
  }

  async #findRevocation({ grant, origin }: ConsoleHolder): Promise<ConsoleEnding | undefined> {
    if (!this.parts.policies.judge(origin).allowed) return endings.revoked
    const guest = this.parts.view.findGuest(grant.guestUuid)
    if (!guest) return endings.deleted
    const refusal = findRefusal(guest)
    if (refusal) return refusal.code === 'policy_blocked' ? endings.blocked : endings.notRunning
    try {
      const caller = await this.parts.grants.find(grant.credential)
      return caller && mayUse(caller, grant) ? undefined : endings.revoked
    } catch (error) {
      // While the store is down, the present rights are not known. The console stays open until a later check.
      if (error instanceof BerthError && error.code === 'store_unavailable') return undefined
      throw error
    }
  }

  #lookAtTime(entry: Entry, socket: ConsoleSocket, nowMs: number): void {
    const { openedAtMs, lastInputMs } = socket
    const step = planTime({ kind: entry.holder.grant.kind, openedAtMs, lastInputMs }, nowMs)
    if (step.do === 'end') return socket.end(step.ending)
    if (step.do === 'warn' && !entry.warned) socket.warn(endings.idle, step.seconds)
    entry.warned = step.do === 'warn'
  }
}

/** The scope that a kind of console requires. */
export function scopeOf(kind: Grant['kind']): string {
  return `terminal:${kind}`
}

export function invalidTicket(): BerthError {
  return new BerthError('unauthenticated', 'unauthorized', 'a valid ticket for this container is required')
}

/** Checks that the guest can have a console. @throws {BerthError} `invalid_state`, `policy_blocked`, `host_offline` */
export function checkGuest(guest: GuestView): void {
  if (!guest.online)
    throw new BerthError('unavailable', 'host_offline', 'the host is not connected to the gateway: try again later')
  const refusal = findRefusal(guest)
  if (refusal) throw refusal
}

function mayUse(caller: Principal, { kind, guestUuid, principal }: Grant): boolean {
  return caller.ref === principal && coversScope(caller.scopes, scopeOf(kind)) && maySee(caller, guestUuid)
}

/** Returns why a guest cannot have a console. `undefined`: the guest is running, or its status is not known. */
function findRefusal(guest: GuestView): BerthError | undefined {
  if (guest.guest.policyBlocked)
    return new BerthError('forbidden', 'policy_blocked', `the container is blocked: ${guest.guest.policyReason}`)
  const status = statusOf(guest)
  if (status === 'running' || status === 'unknown') return undefined
  return conflict('invalid_state', `the container has no console: it is ${status}`)
}

function tooMany(what: string): BerthError {
  return new BerthError('exhausted', 'too_many_consoles', `${what}: close one first`)
}
