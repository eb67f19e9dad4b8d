/** Maximum time in ms for which the restart of an ended guest waits until the driver reports why the guest ended. */
const toldWithinMs = 1500
const firstBackoffMs = 5000
const maxBackoffMs = 300_000
/** Time in ms for which a start is counted. Each counted start doubles the wait before the next start. */
const windowMs = 600_000

/** Decides when a stopped guest that should be running is started again. */
export class RestartPolicy {
  readonly #missingSince = new Map<string, number>()
  readonly #starts = new Map<string, number[]>()

  /** @param now returns the present time in ms since 1970 */
  constructor(private readonly now: () => number) {}

  running(uuid: string): void {
    this.#missingSince.delete(uuid)
  }

  started(uuid: string): void {
    this.#missingSince.delete(uuid)
    this.#starts.set(uuid, [...this.#recent(uuid), this.now()])
  }

  forget(uuid: string): void {
    this.#missingSince.delete(uuid)
    this.#starts.delete(uuid)
  }

  /**
   * Returns the time in ms to wait before an ended guest is started. 0: no wait. The time doubles with each start in
   * the last ten minutes, up to `maxBackoffMs`. An unknown cause delays the start by at most `toldWithinMs`.
   */
  holdMs(uuid: string, causeKnown: boolean): number {
    const since = this.#missingSince.get(uuid) ?? this.now()
    this.#missingSince.set(uuid, since)
    const settle = causeKnown ? 0 : since + toldWithinMs - this.now()
    return Math.max(0, settle, this.#backoffMs(uuid))
  }

  #backoffMs(uuid: string): number {
    const recent = this.#recent(uuid)
    const last = recent.at(-1)
    if (last === undefined) return 0
    return last + Math.min(maxBackoffMs, firstBackoffMs * 2 ** (recent.length - 1)) - this.now()
  }

  #recent(uuid: string): number[] {
    return (this.#starts.get(uuid) ?? []).filter((at) => at > this.now() - windowMs)
  }
}
