import { randomBytes } from 'node:crypto'
import { BerthError } from '../../shared/errors.js'
import { findFullRoom } from '../../shared/fair-room.js'
import type { ConsolePlace } from '../drivers/contract.js'
import type { Terminal, TerminalListener } from '../host/process/pty.js'
import type { ConsoleUser, HoldRequest, OpenConsole, Size } from './contract.js'
import { HeldConsole } from './held-console.js'

export type OpenTerminal = (place: ConsolePlace, size: Size, listener: TerminalListener) => Terminal

/** Opens, resumes and limits all consoles that this process holds. */
export class Holder {
  readonly #consoles = new Map<string, HeldConsole>()

  /** @param onChange called after a console was opened or has ended */
  constructor(
    private readonly openTerminal: OpenTerminal,
    private readonly onChange: () => void = () => undefined,
  ) {}

  get size(): number {
    return this.#consoles.size
  }

  /** Opens or resumes a console. @throws {BerthError} `console_gone`, `too_many_consoles`, `agent_error` */
  open(request: HoldRequest, user: ConsoleUser): OpenConsole {
    if (request.resume === '') return this.#create(request).join(user)
    const held = this.#consoles.get(request.resume)
    if (!held?.belongsTo(request))
      throw new BerthError('not_found', 'console_gone', 'this console has ended: open a new one')
    return held.join(user, request)
  }

  closeAll(): void {
    for (const held of [...this.#consoles.values()]) held.close()
  }

  #create(request: HoldRequest): HeldConsole {
    this.#makeRoom(request)
    const { guestUuid, principal, share, unlimited, keepMs, size, place } = request
    const id = randomBytes(16).toString('base64url')
    try {
      const held = new HeldConsole({
        id,
        guestUuid,
        principal,
        share,
        unlimited,
        keepMs,
        size,
        open: (listener) => this.openTerminal(place, size, listener),
        onGone: () => {
          this.#consoles.delete(id)
          this.onChange()
        },
      })
      this.#consoles.set(id, held)
      this.onChange()
      return held
    } catch (cause) {
      throw new BerthError('internal', 'agent_error', 'the terminal could not be opened', { cause })
    }
  }

  /** Ends unused consoles until the limits allow a new console. */
  #makeRoom(of: HoldRequest): void {
    for (let full = this.#findFull(of); full; full = this.#findFull(of)) {
      const unused = full.consoles.find(({ isUsed }) => !isUsed)
      if (!unused) throw tooMany(full.what)
      unused.close()
    }
  }

  /** Finds a limit that a new console would exceed. Also returns the consoles that count towards this limit. */
  #findFull(request: HoldRequest): Full | undefined {
    const { guestUuid, principal, share, limits } = request
    const all = [...this.#consoles.values()]
    const ofGuest = all.filter((held) => held.guestUuid === guestUuid)
    const ofUser = all.filter((held) => held.principal === principal || held.share === share)
    const own = ofGuest.filter((held) => ofUser.includes(held))
    const atGuest = findFullRoom(ofGuest, request, limits.guest)
    if (atGuest === 'share') return { consoles: own, what: 'too many of your consoles are open for this container' }
    if (atGuest) return { consoles: ofGuest, what: 'too many consoles are open for this container' }
    const atHost = findFullRoom(all, request, limits.host)
    if (atHost === 'share' || ofUser.length >= limits.perPrincipal)
      return { consoles: ofUser, what: 'too many of your consoles are open on this host' }
    return atHost && { consoles: [...ofGuest, ...ofUser], what: 'too many consoles are open on this host' }
  }
}

interface Full {
  readonly consoles: readonly HeldConsole[]
  readonly what: string
}

export function tooMany(message: string): BerthError {
  return new BerthError('exhausted', 'too_many_consoles', `${message}: close one first`)
}
