import { endings, type ConsoleEnding } from './endings.js'
import type { Grant } from './tickets.js'

const longestMs = 12 * 3_600_000
const idleMs = { ssh: 30 * 60_000, vnc: 60 * 60_000 } as const
const warnBeforeMs = 60_000

/** Kind of an open console, and the times of its opening and of its last input, from `performance.now()`. */
export interface OpenTimes {
  readonly kind: Grant['kind']
  readonly openedAtMs: number
  readonly lastInputMs: number
}

/** The action that the time limits of a console require now. */
export type TimeStep =
  | { readonly do: 'nothing' }
  /** Warns that the console will end in this number of seconds if there is no input. */
  | { readonly do: 'warn'; readonly seconds: number }
  | { readonly do: 'end'; readonly ending: ConsoleEnding }

/** Returns the action that is required now. Consoles end after twelve hours, or after `idleMs` without input. */
export function planTime({ kind, openedAtMs, lastInputMs }: OpenTimes, nowMs: number): TimeStep {
  const leftMs = idleMs[kind] - (nowMs - lastInputMs)
  if (nowMs - openedAtMs > longestMs) return { do: 'end', ending: endings.tooLong }
  if (leftMs <= 0) return { do: 'end', ending: endings.idle }
  return leftMs > warnBeforeMs ? { do: 'nothing' } : { do: 'warn', seconds: Math.ceil(leftMs / 1000) }
}
