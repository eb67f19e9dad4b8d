/** A message for a webhook that waits to be delivered. */
export interface Delivery {
  readonly id: string
  /** Grows: of one container, smaller ones go first. */
  readonly number: number
  /** The same for every attempt and for repeats by hand. */
  readonly eventId: string
  readonly type: string
  /** Uuid of the container, or id of the host: what has the same goes in order. */
  readonly key: string
  readonly guestUuid: string
  readonly createdAtMs: number
  readonly attempts: number
  /** ms since 1970. */
  readonly nextAtMs: number
  readonly last?: DeliveryAttempt
}

/** How an attempt ended. */
export interface DeliveryAttempt {
  readonly atMs: number
  readonly durationMs: number
  /** 0: there was no answer. */
  readonly status: number
  /** Empty: it was taken. */
  readonly error: string
}

/** One that has ended. */
export interface LoggedDelivery extends Delivery {
  readonly outcome: 'delivered' | 'failed'
  readonly body: string
}

/** The first is after about a second, the last after a quarter of an hour each. */
export interface RetryPlan {
  readonly firstMs: number
  readonly maxMs: number
  /** A delivery that is older is given up. */
  readonly giveUpMs: number
}

export const defaultRetries: RetryPlan = { firstMs: 1000, maxMs: 15 * 60_000, giveUpMs: 24 * 3_600_000 }

/**
 * When the next attempt is due; undefined: it is given up.
 * @param attempts that have failed so far, at least 1
 * @param random from 0 to 1, so that receivers that were down are not asked by all at once
 */
export function nextAttemptMs(
  { firstMs, maxMs, giveUpMs }: RetryPlan,
  { createdAtMs, attempts, nowMs, random }: { createdAtMs: number; attempts: number; nowMs: number; random: number },
): number | undefined {
  if (nowMs - createdAtMs >= giveUpMs) return undefined
  const ceilingMs = Math.min(maxMs, firstMs * 2 ** Math.min(attempts - 1, 30))
  return nowMs + ceilingMs * (0.5 + random / 2)
}
