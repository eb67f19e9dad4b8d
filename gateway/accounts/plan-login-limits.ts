/*
 * Limits of failed logins. Failures are counted for each source, each account, and each pair of source and account. A
 * source without failures is always allowed an attempt, and devices that have logged in before have separate limits.
 * Strangers can therefore not lock out the owner of an account.
 */

const minuteMs = 60_000
const dayMs = 24 * 60 * minuteMs

/** Kinds of credentials. Each has its own counter, because a correct password must not reset the counter of codes. */
export const loginSteps = ['password', 'code', 'recovery', 'passkey'] as const
export type LoginStep = (typeof loginSteps)[number]

/** Limit of attempts that share a counter. */
export interface Allowance {
  /** Number of attempts without a waiting time. */
  readonly free: number
  /** First waiting time in ms. It doubles with each further attempt, up to `mostWaitMs`. */
  readonly firstWaitMs: number
  readonly mostWaitMs: number
  /** Time in ms until the counter is reset: from the first attempt, and again from the end of each waiting time. */
  readonly forgetMs: number
}

const common = { firstWaitMs: minuteMs, forgetMs: 15 * minuteMs }

export const allowances = {
  /** Attempts to log in to one account from one source. */
  pair: { ...common, free: 5, mostWaitMs: 60 * minuteMs },
  /** Attempts to log in to one account from one source, while the account is under attack (see `attackAt`). */
  pairUnderAttack: { ...common, free: 2, mostWaitMs: 60 * minuteMs },
  /** Attempts to log in to any account from one source. */
  source: { ...common, free: 30, mostWaitMs: 15 * minuteMs },
  /** Attempts to log in to one account from a device that has logged in to the account before. */
  device: { ...common, free: 5, mostWaitMs: 15 * minuteMs },
  /**
   * Attempts to enter the code of one account, from one source or known device. Failures count for a day, because codes
   * are short. At any time, three of the million possible codes are valid.
   */
  code: { free: 5, firstWaitMs: minuteMs, mostWaitMs: 60 * minuteMs, forgetMs: dayMs },
  /** Attempts to enter the code of one account, from all sources together. Attempts from known devices do not count. */
  codes: { free: 30, firstWaitMs: 5 * minuteMs, mostWaitMs: 60 * minuteMs, forgetMs: dayMs },
} as const satisfies Record<string, Allowance>

/** An account is under attack if this number of attempts fails within `attackWindowMs`. */
export const attackAt = 50
export const attackWindowMs = 60 * minuteMs

/** A counter of attempts with its limit. */
export interface Bucket {
  /** Part of the counter's key in the store. */
  readonly name: string
  readonly allowance: Allowance
}

/** The origin of an attempt. `account` is a digest of the user name. */
export interface AttemptSource {
  readonly account: string
  readonly source: string
  /** Name of a device that has logged in to the account before. */
  readonly device?: string | undefined
}

/** Lists the counters that an attempt increments. */
export function planBuckets(attempt: AttemptSource, step: LoginStep, failures: number): Bucket[] {
  const own = ownBucket(attempt, step, failures)
  if (attempt.device !== undefined) return [own]
  const source = { name: `source:${attempt.source}`, allowance: allowances.source }
  const codes = { name: `codes:${attempt.account}`, allowance: allowances.codes }
  return step === 'code' ? [own, source, codes] : [own, source]
}

/** The counter for this account and source (or known device). A complete login from the source resets the counter. */
export function ownBucket({ account, source, device }: AttemptSource, step: LoginStep, failures = 0): Bucket {
  const prefix = step === 'password' ? '' : `${step}-`
  const name = device === undefined ? `${prefix}pair:${account}:${source}` : `${prefix}device:${device}`
  return { name, allowance: ownAllowance(step, device !== undefined, failures) }
}

function ownAllowance(step: LoginStep, isKnown: boolean, failures: number): Allowance {
  if (step === 'code') return allowances.code
  if (isKnown) return allowances.device
  return failures >= attackAt ? allowances.pairUnderAttack : allowances.pair
}

/** Waiting time in ms before the next attempt. 0: no wait. @param attempts number of attempts so far */
export function waitAfter(attempts: number, { free, firstWaitMs, mostWaitMs }: Allowance): number {
  if (attempts < free) return 0
  return Math.min(mostWaitMs, firstWaitMs * 2 ** Math.min(20, attempts - free))
}
