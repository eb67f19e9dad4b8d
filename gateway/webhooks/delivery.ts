/** A message for a webhook that waits to be delivered. */
export interface Delivery {
  readonly id: string
  /** Increases: for one container, smaller numbers are sent first. */
  readonly number: number
  /** The same for every attempt and for manual repetitions. */
  readonly eventId: string
  readonly type: string
  /** Uuid of the container, or id of the host: deliveries with the same key are sent in order. */
  readonly key: string
  readonly guestUuid: string
  readonly createdAtMs: number
  readonly attempts: number
  /** ms since 1970. */
  readonly nextAtMs: number
  readonly last?: DeliveryAttempt
}

/** The result of an attempt. */
export interface DeliveryAttempt {
  readonly atMs: number
  readonly durationMs: number
  /** 0: there was no answer. */
  readonly status: number
  /** Empty: the receiver accepted it. */
  readonly error: string
}

/** An ended delivery. */
export interface LoggedDelivery extends Delivery {
  readonly outcome: 'delivered' | 'failed'
  readonly body: string
}

/** Intervals of retries: the first is about a second, the last ones a quarter of an hour each. */
export interface RetryPlan {
  readonly firstMs: number
  readonly maxMs: number
  /** An older delivery is given up. */
  readonly giveUpMs: number
}

export const defaultRetries: RetryPlan = { firstMs: 1000, maxMs: 15 * 60_000, giveUpMs: 24 * 3_600_000 }

/**
 * Time of the next attempt; undefined: the delivery is given up.
 * @param attempts number of failed attempts, at least 1
 * @param random from 0 to 1, so that not all deliveries reach a recovered receiver at once
 */
export function nextAttemptMs(
  { firstMs, maxMs, giveUpMs }: RetryPlan,
  { createdAtMs, attempts, nowMs, random }: { createdAtMs: number; attempts: number; nowMs: number; random: number },
): number | undefined {
  if (nowMs - createdAtMs >= giveUpMs) return undefined
  const ceilingMs = Math.min(maxMs, firstMs * 2 ** Math.min(attempts - 1, 30))
  return nowMs + ceilingMs * (0.5 + random / 2)
}
