/** Time in ms for which a gateway may use its caches after it began the last exchange that showed all changes. */
export const trustMs = 1000
/**
 * Time in ms after which other gateways know that a silent gateway no longer uses its caches. It is longer than
 * `trustMs`, because clocks do not run equally fast.
 */
export const distrustMs = 1200

export interface KnownGateways {
  /** Monotonic time in ms until which each other gateway may use its caches, by its id. */
  readonly trustedUntilMs: ReadonlyMap<string, number>
  /** Number of other subscribers of the channel. */
  readonly others: number
  readonly nowMs: number
  /** Time at which this gateway began to receive messages of the other gateways. */
  readonly connectedMs: number
}

/** Answers that a gateway needs before its writes are visible everywhere. */
export interface AnswersNeeded {
  /** Ids of gateways that must answer. */
  readonly from: readonly string[]
  /** Minimum number of answers. It is higher than the number of ids if unknown gateways may use their caches. */
  readonly count: number
  /** Monotonic time in ms at which no gateway can use older data any more, even without answers. */
  readonly untilMs: number
}

/**
 * Decides whose answers are needed. A gateway that was heard within `distrustMs` may use its caches. Soon after this
 * gateway has connected, it may not have heard all of them yet: their number then decides.
 */
export function planAnswers({ trustedUntilMs, others, nowMs, connectedMs }: KnownGateways): AnswersNeeded {
  const trusted = [...trustedUntilMs].filter(([, untilMs]) => untilMs > nowMs)
  const completeMs = connectedMs + distrustMs
  const mayBeIncomplete = others > trusted.length && nowMs < completeMs
  return {
    from: trusted.map(([id]) => id),
    count: mayBeIncomplete ? others : 0,
    untilMs: Math.max(mayBeIncomplete ? completeMs : nowMs, ...trusted.map(([, untilMs]) => untilMs)),
  }
}

/** @param answered ids of the gateways that have answered */
export function isVisible({ from, count }: AnswersNeeded, answered: ReadonlySet<string>): boolean {
  return answered.size >= count && from.every((id) => answered.has(id))
}
