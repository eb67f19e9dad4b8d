import type { Holding, Room } from '../../shared/fair-room.js'
import type { ConsolePlace } from '../drivers/contract.js'
import type { ConsoleRequest, ConsoleResponse } from '../../shared/console-frames.js'

/** Size of a terminal in characters. */
export interface Size {
  readonly columns: number
  readonly rows: number
}

/** A request to the process that holds consoles. */
export interface HoldRequest extends Holding {
  readonly guestUuid: string
  /** Identity of the user. Only this user is allowed to resume the console. */
  readonly principal: string
  /** Id of the console to resume. Empty: opens a new one. */
  readonly resume: string
  /** Offset up to which the client has the output of the resumed console. Null: the client has no output. */
  readonly received: number | null
  readonly size: Size
  readonly place: ConsolePlace
  /** Time in ms for which the console stays after its user has left. 0: the console ends immediately. */
  readonly keepMs: number
  readonly limits: ConsoleLimits
}

/** A request to end the console process and all consoles that it holds. */
export interface EndRequest {
  readonly end: true
}

export interface ConsoleLimits {
  readonly guest: Room
  readonly host: Room
  /** Maximum number of consoles of one caller on the host. It also applies to unlimited callers (see `Holding`). */
  readonly perPrincipal: number
}

export const consoleLimits: ConsoleLimits = {
  guest: { most: 10, perShare: 5, reserve: 2 },
  host: { most: 256, perShare: 32, reserve: 32 },
  perPrincipal: 128,
}

/** The user of a console, who receives the guest's output. */
export interface ConsoleUser {
  send(response: ConsoleResponse): void
  /** Called once, after the last `send`. */
  end(): void
}

export interface OpenConsole {
  receive(request: ConsoleRequest): void
  /** Call this when the user has left. The user can return later. */
  leave(): void
}
