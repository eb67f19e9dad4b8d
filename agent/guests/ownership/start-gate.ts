import { setTimeout as delay } from 'node:timers/promises'
import type { Database } from '../../state/database.js'
import { findSetting, putSetting } from '../../state/settings-table.js'

/** Setting with the id of the last boot in which guests could start: the owners were compared, or the host was new. */
const comparedInBoot = 'owners_compared_in_boot'
const otherHosts = 'fleet_has_other_hosts'
/** Seconds to wait for a gateway if the fleet has no other host that could have restored guests of this host. */
const singleHostSeconds = 60
const longestTimerMs = 3_600_000

/**
 * Keeps guests stopped after a boot of the host until a gateway has checked which of them belong to other hosts.
 * Another host may have restored a guest during the downtime. If the wait is limited, the guests are started at its end.
 */
export class StartGate {
  #untilMs: number
  readonly #opening = new AbortController()

  /**
   * @param waitMs time in ms for which the host waits for a gateway. 0: it does not wait. Infinity: without a limit
   * @param record records that a gateway has checked the owners since the present boot
   */
  constructor(
    waitMs: number,
    private readonly record: (hasOtherHosts?: boolean) => void = () => undefined,
    private readonly now: () => number = () => performance.now(),
  ) {
    this.#untilMs = now() + waitMs
  }

  /** Time in ms for which guests must not be started yet. 0: they may be started. Infinity: no limit. */
  get leftMs(): number {
    return Math.max(0, this.#untilMs - this.now())
  }

  /** Waits until guests may be started. */
  async opened(signal: AbortSignal): Promise<void> {
    const ended = AbortSignal.any([signal, this.#opening.signal])
    while (this.leftMs > 0) {
      const waitMs = Math.min(this.leftMs, longestTimerMs)
      await delay(waitMs, undefined, { signal: ended }).catch(() => signal.throwIfAborted())
    }
  }

  /** @param listener called when a gateway ends the wait, but not when a limited wait ends by itself */
  onOpen(listener: () => void): void {
    this.#opening.signal.addEventListener('abort', listener, { once: true })
  }

  /**
   * Lets guests start. Call it when guests that belong to other hosts are fenced.
   * @param hasOtherHosts true if the fleet has other hosts. Absent: the gateway did not report it
   */
  open(hasOtherHosts?: boolean): void {
    this.record(hasOtherHosts)
    const wasClosed = this.leftMs > 0
    this.#untilMs = -Infinity
    if (wasClosed) this.#opening.abort()
  }
}

/**
 * Returns a gate that waits if no gateway has checked the owners in the present boot. In the first boot of a new host it
 * does not wait. A restart of the agent does not open the gate.
 * @param bootId id of the present boot, from the kernel
 * @param seconds time to wait for a gateway. `auto`: without a limit if the fleet has other hosts, otherwise 60 s
 */
export function openStartGate(db: Database, bootId: string, seconds: number | 'auto'): StartGate {
  const before = findSetting(db, comparedInBoot)
  const record = (hasOtherHosts?: boolean): void => {
    putIfChanged(db, comparedInBoot, bootId)
    if (hasOtherHosts !== undefined) putIfChanged(db, otherHosts, String(hasOtherHosts))
  }
  if (before === undefined) record()
  if (before === undefined || before === bootId) return new StartGate(0, record)
  return new StartGate((seconds === 'auto' ? usualSeconds(db) : seconds) * 1000, record)
}

function usualSeconds(db: Database): number {
  return findSetting(db, otherHosts) === 'true' ? Infinity : singleHostSeconds
}

function putIfChanged(db: Database, key: string, value: string): void {
  if (findSetting(db, key) !== value) putSetting(db, key, value)
}
