import { endings, type ConsoleEnding } from './endings.js'
import type { Grant } from './tickets.js'

const longestMs = 12 * 3_600_000
const idleMs = { ssh: 30 * 60_000, vnc: 60 * 60_000 } as const
const warnBeforeMs = 60_000

/** A console that is open: all times as `performance.now()`. */
export interface OpenTimes {
  readonly kind: Grant['kind']
  readonly openedAtMs: number
  readonly lastInputMs: number
}

/** What its time asks for. */
export type TimeStep =
  | { readonly do: 'nothing' }
  /** It ends in so many seconds unless something is typed. */
  | { readonly do: 'warn'; readonly seconds: number }
  | { readonly do: 'end'; readonly ending: ConsoleEnding }

/** Consoles end when nothing was typed for long, after a warning, and in any case after twelve hours. */
export function planTime({ kind, openedAtMs, lastInputMs }: OpenTimes, nowMs: number): TimeStep {
  const leftMs = idleMs[kind] - (nowMs - lastInputMs)
  if (nowMs - openedAtMs > longestMs) return { do: 'end', ending: endings.tooLong }
  if (leftMs <= 0) return { do: 'end', ending: endings.idle }
  return leftMs > warnBeforeMs ? { do: 'nothing' } : { do: 'warn', seconds: Math.ceil(leftMs / 1000) }
}
