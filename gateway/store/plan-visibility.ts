/** Time in ms for which a gateway may use its caches. It begins with the last successful exchange with Redis. */
export const trustMs = 1000
/**
 * Time in ms of silence after which other gateways assume that a gateway no longer uses its caches. It is longer than
 * `trustMs`, because clocks do not run equally fast.
 */
export const distrustMs = 1200

export interface KnownGateways {
  /** Monotonic time in ms until which another gateway may use its caches, by gateway id. */
  readonly trustedUntilMs: ReadonlyMap<string, number>
  /** Number of other subscribers of the channel. */
  readonly others: number
  readonly nowMs: number
  /** Monotonic time in ms at which this gateway began to receive messages of the other gateways. */
  readonly connectedMs: number
}

/** Answers that a gateway needs before its writes count as visible everywhere. */
export interface AnswerRequirement {
  /** Ids of gateways that must answer. */
  readonly from: readonly string[]
  /** Minimum number of answers in case that gateways outside `from` can use their caches. 0: `from` is complete. */
  readonly count: number
  /** End of the wait in monotonic ms. A gateway that has not answered by then no longer uses older data. */
  readonly untilMs: number
}

/**
 * Decides which gateways must confirm a change. These are the gateways that sent a message within `distrustMs`, because
 * they can use their caches. A gateway that has just connected does not know all gateways. It therefore waits for one
 * answer per subscriber.
 */
export function planAnswers({ trustedUntilMs, others, nowMs, connectedMs }: KnownGateways): AnswerRequirement {
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
export function isVisible({ from, count }: AnswerRequirement, answered: ReadonlySet<string>): boolean {
  return answered.size >= count && from.every((id) => answered.has(id))
}
