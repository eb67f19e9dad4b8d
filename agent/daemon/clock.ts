import { readBootId } from '../host/process/proc.js'
import { findSetting, putSetting } from '../state/settings-table.js'
import type { Database } from '../state/database.js'
import { SteadyClock, steadyClock, type ClockMark } from '../../shared/steady-clock.js'

const setting = 'clock'
const keepEveryMs = 60_000

export interface ClockOptions {
  /** Returns ms since 1970. Default: the host's clock. */
  readonly now?: () => number
  /** Returns ms since any fixed moment. Default: `now` if it is set, otherwise the host's monotonic clock. */
  readonly monotonic?: () => number
}

/**
 * Opens the agent's clock. After a restart of the agent, the clock is trusted if it did not jump meanwhile. A host can
 * lose the time at a boot. After a boot, the clock is therefore trusted only when it has been stable for some time.
 */
export function openClock(db: Database, { now, monotonic = now }: ClockOptions): SteadyClock {
  const clock = now && monotonic ? new SteadyClock({ wall: now, monotonic }) : steadyClock
  const known = findSetting(db, setting)
  // At the first start, and after an upgrade from an older version, no state is stored. The clock is then trusted.
  if (known === undefined) clock.trust()
  else clock.resume(JSON.parse(known) as ClockMark, readBootId())
  return clock
}

/** Records the clock's state at intervals, for the agent's next start. @returns a function that ends the recording */
export function keepClock(db: Database, clock: SteadyClock): () => void {
  const keep = (): void => {
    if (clock.isSettled()) putSetting(db, setting, JSON.stringify(clock.mark(readBootId())))
  }
  keep()
  const timer = setInterval(keep, keepEveryMs).unref()
  return () => clearInterval(timer)
}
