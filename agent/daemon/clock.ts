import { readBootId } from '../host/proc.js'
import { findSetting, putSetting } from '../state/settings.js'
import type { Database } from '../state/database.js'
import { SteadyClock, steadyClock, type ClockMark } from '../../shared/steady-clock.js'

const setting = 'clock'
const keepEveryMs = 60_000

export interface ClockOptions {
  /** ms since 1970; default: the host's clock. */
  readonly now?: () => number
  /** ms since any moment; default: as `now`, if that is given. */
  readonly monotonic?: () => number
}

/**
 * The agent's clock. After a restart of the agent it is trusted at once if it has not jumped meanwhile; after a boot of
 * the host, which may have lost the time, only once it has been stable.
 */
export function openClock(db: Database, { now, monotonic = now }: ClockOptions): SteadyClock {
  const clock = now && monotonic ? new SteadyClock({ wall: now, monotonic }) : steadyClock
  const known = findSetting(db, setting)
  // Without a mark there are no guests yet, or an agent without this clock ran before.
  if (known === undefined) clock.trust()
  else clock.resume(JSON.parse(known) as ClockMark, readBootId())
  return clock
}

/** Notes the clock in the journal from time to time, for the next agent. @returns a function that ends it */
export function keepClock(db: Database, clock: SteadyClock): () => void {
  const keep = (): void => {
    if (clock.isSettled()) putSetting(db, setting, JSON.stringify(clock.mark(readBootId())))
  }
  keep()
  const timer = setInterval(keep, keepEveryMs).unref()
  return () => clearInterval(timer)
}
