import { setTimeout as delay } from 'node:timers/promises'
import type { Database } from '../../state/database.js'
import { findSetting, putSetting } from '../../state/settings-table.js'

const setting = 'owners_compared_in_boot'
const pollMs = 250

/**
 * Keeps guests stopped after a boot of the host until a gateway has checked which of them belong to other hosts.
 * Another host may have restored a guest during the downtime. If no gateway answers in time, the guests are started.
 */
export class StartGate {
  #untilMs: number

  /**
   * @param waitMs time in ms for which the host waits for a gateway. 0: it does not wait
   * @param record records that a gateway has checked the owners since the present boot
   */
  constructor(
    waitMs: number,
    private readonly record: () => void = () => undefined,
    private readonly now: () => number = () => performance.now(),
  ) {
    this.#untilMs = now() + waitMs
  }

  /** Time in ms for which guests must not be started yet. 0: they may be started. */
  get leftMs(): number {
    return Math.max(0, this.#untilMs - this.now())
  }

  /** Waits until guests may be started. */
  async opened(signal: AbortSignal): Promise<void> {
    while (this.leftMs > 0) await delay(Math.min(this.leftMs, pollMs), undefined, { signal })
  }

  /** Lets guests start. Call it when guests that belong to other hosts are fenced. */
  open(): void {
    this.record()
    this.#untilMs = -Infinity
  }
}

/**
 * Returns a gate that waits if a gateway has checked the owners in an earlier boot, but not in the present one. A
 * restart of the agent does not open the gate.
 * @param bootId id of the present boot, from the kernel
 */
export function openStartGate(db: Database, bootId: string, waitMs: number): StartGate {
  const before = findSetting(db, setting)
  const record = (): void => {
    if (findSetting(db, setting) !== bootId) putSetting(db, setting, bootId)
  }
  return new StartGate(before === undefined || before === bootId ? 0 : waitMs, record)
}
