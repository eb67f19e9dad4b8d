/** A message for a webhook, with the state of its delivery. */
export interface Delivery {
  readonly id: string
  /** Increasing number. Deliveries about one container or host are sent in the order of their numbers. */
  readonly number: number
  /** Id of the event, the same for all attempts and manual repetitions. */
  readonly eventId: string
  readonly type: string
  /** Uuid of the container or id of the host. Deliveries with the same key are sent in order. */
  readonly key: string
  readonly guestUuid: string
  readonly createdAtMs: number
  readonly attempts: number
  /** Time of the next attempt in ms since 1970. */
  readonly nextAtMs: number
  readonly last?: DeliveryAttempt
}

export interface DeliveryAttempt {
  readonly atMs: number
  readonly durationMs: number
  /** HTTP status of the answer. 0: the receiver did not answer. */
  readonly status: number
  /** Reason of the failure. Empty: the receiver accepted the message. */
  readonly error: string
}

/** A delivery that has ended. */
export interface LoggedDelivery extends Delivery {
  readonly outcome: 'delivered' | 'failed'
  readonly body: string
}

/** Pauses between attempts: about a second after the first attempt, increasing to a quarter of an hour. */
export interface RetryPlan {
  readonly firstMs: number
  readonly maxMs: number
  /** Age in ms at which a delivery fails for good. */
  readonly giveUpMs: number
}

export const defaultRetries: RetryPlan = { firstMs: 1000, maxMs: 15 * 60_000, giveUpMs: 24 * 3_600_000 }

/**
 * Time of the next attempt. `undefined`: the delivery has failed for good.
 * @param attempts number of failed attempts, at least 1
 * @param random from 0 to 1; spreads the load on a receiver that has just recovered
 */
export function nextAttemptMs(
  { firstMs, maxMs, giveUpMs }: RetryPlan,
  { createdAtMs, attempts, nowMs, random }: { createdAtMs: number; attempts: number; nowMs: number; random: number },
): number | undefined {
  if (nowMs - createdAtMs >= giveUpMs) return undefined
  const ceilingMs = Math.min(maxMs, firstMs * 2 ** Math.min(attempts - 1, 30))
  return nowMs + ceilingMs * (0.5 + random / 2)
}
