/*
 * Limits of failed logins. Failures count for an account from one source, for a source, and for an account. Nothing
 * locks an account for everybody, so that nobody can lock its owner out: a source without failures always has an
 * attempt, and a device that logged in before has separate attempts.
 */

const minuteMs = 60_000
const dayMs = 24 * 60 * minuteMs

/** Kind of credential. Each kind is counted separately, so that a correct password does not hide wrong codes. */
export const loginSteps = ['password', 'code', 'recovery'] as const
export type LoginStep = (typeof loginSteps)[number]

/** Attempts that share a count. */
export interface Allowance {
  /** Attempts without a wait. */
  readonly free: number
  /** The wait after those; it doubles with each further attempt. */
  readonly firstWaitMs: number
  readonly mostWaitMs: number
  /** The count begins again this long after its first attempt, or after the wait. */
  readonly forgetMs: number
}

const common = { firstWaitMs: minuteMs, forgetMs: 15 * minuteMs }

export const allowances = {
  /** One account, from one source. */
  pair: { ...common, free: 5, mostWaitMs: 60 * minuteMs },
  /** The same while many others fail at the account. */
  pairUnderAttack: { ...common, free: 2, mostWaitMs: 60 * minuteMs },
  /** All accounts, from one source. */
  source: { ...common, free: 30, mostWaitMs: 15 * minuteMs },
  /** One account, from a device that logged in to it before. */
  device: { ...common, free: 5, mostWaitMs: 15 * minuteMs },
  /**
   * Codes of one account from one source or known device. One day, since three of a million codes are valid at any
   * time.
   */
  code: { free: 5, firstWaitMs: minuteMs, mostWaitMs: 60 * minuteMs, forgetMs: dayMs },
  /** Codes of one account from all unknown devices together. */
  codes: { free: 30, firstWaitMs: 5 * minuteMs, mostWaitMs: 60 * minuteMs, forgetMs: dayMs },
} as const satisfies Record<string, Allowance>

/** Failures of an account within an hour that count as an attack. */
export const attackAt = 50
export const attackWindowMs = 60 * minuteMs

/** A count of attempts. */
export interface Bucket {
  /** Name in the store. */
  readonly name: string
  readonly allowance: Allowance
}

/** The source of an attempt. All fields are digests or addresses. */
export interface AttemptSource {
  readonly account: string
  readonly source: string
  /** A device that logged in to the account before. */
  readonly device?: string | undefined
}

/** Counters to which an attempt belongs. */
export function planBuckets(attempt: AttemptSource, step: LoginStep, failures: number): Bucket[] {
  const own = ownBucket(attempt, step, failures)
  if (attempt.device !== undefined) return [own]
  const source = { name: `source:${attempt.source}`, allowance: allowances.source }
  const codes = { name: `codes:${attempt.account}`, allowance: allowances.codes }
  return step === 'code' ? [own, source, codes] : [own, source]
}

/** Counter of this account from this source only; a complete login from there resets it. */
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

/**
 * Wait before the next attempt, after this number of attempts including this one.
 * @returns ms; 0: no wait
 */
export function waitAfter(attempts: number, { free, firstWaitMs, mostWaitMs }: Allowance): number {
  if (attempts < free) return 0
  return Math.min(mostWaitMs, firstWaitMs * 2 ** Math.min(20, attempts - free))
}
