import type { Holding, Room } from '../../shared/fair-room.js'
import type { ConsolePlace } from '../drivers/contract.js'
import type { ConsoleRequest, ConsoleResponse } from '../../shared/console-frames.js'

/** In characters. */
export interface Size {
  readonly columns: number
  readonly rows: number
}

/** What is asked of the process that holds consoles. */
export interface HoldRequest extends Holding {
  readonly guestUuid: string
  /** Who uses it; only the same may resume it. */
  readonly principal: string
  /** Id of a console that is to go on; empty: a new one. */
  readonly resume: string
  /** Offset of the output that the client has of the console that it resumes. */
  readonly received: number | null
  readonly size: Size
  readonly place: ConsolePlace
  /** How long the console stays when its user is gone; 0: not at all. */
  readonly keepMs: number
  readonly limits: ConsoleLimits
}

/** Ends the process that holds consoles, and all of them. */
export interface EndRequest {
  readonly end: true
}

export interface ConsoleLimits {
  readonly guest: Room
  readonly host: Room
  /** Consoles of one unlimited caller on the host. */
  readonly perPrincipal: number
}

export const consoleLimits: ConsoleLimits = {
  guest: { most: 10, perShare: 5, reserve: 2 },
  host: { most: 256, perShare: 32, reserve: 32 },
  perPrincipal: 128,
}

/** Whoever uses a console: what the guest shows goes there. */
export interface ConsoleUser {
  send(response: ConsoleResponse): void
  /** After the last `send`. */
  end(): void
}

/** A console that is in use. */
export interface OpenConsole {
  receive(request: ConsoleRequest): void
  /** The user is gone, and may come back. */
  leave(): void
}
