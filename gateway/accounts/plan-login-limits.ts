/*
 * How many log-ins may fail. Failures count for an account from one source, for a source, and for an account; nothing
 * locks an account for everybody, so that nobody can lock its owner out: a source that has not failed yet always has
 * an attempt, and a device that logged in before has attempts of its own.
 */

const minuteMs = 60_000

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
  /** Codes of one account from other devices, wherever they come from: there are only a million codes. */
  codes: { free: 30, firstWaitMs: 5 * minuteMs, mostWaitMs: 60 * minuteMs, forgetMs: 60 * minuteMs },
} as const satisfies Record<string, Allowance>

/** Failures of an account within an hour, at which somebody seems to guess. */
export const attackAt = 50
export const attackWindowMs = 60 * minuteMs

/** A count of attempts. */
export interface Bucket {
  /** Name in the store. */
  readonly name: string
  readonly allowance: Allowance
}

/** Who tries, as far as it is counted. All are digests or addresses. */
export interface Attempt {
  readonly account: string
  readonly source: string
  /** A device that logged in to the account before. */
  readonly device?: string | undefined
}

/** Counts that an attempt to give a password belongs to. */
export function planBuckets({ account, source, device }: Attempt, failures: number): Bucket[] {
  if (device !== undefined) return [{ name: `device:${device}`, allowance: allowances.device }]
  const pair = failures >= attackAt ? allowances.pairUnderAttack : allowances.pair
  return [
    { name: `pair:${account}:${source}`, allowance: pair },
    { name: `source:${source}`, allowance: allowances.source },
  ]
}

/** Counts that an attempt to give a code belongs to, beside those. */
export function planCodeBuckets({ account, device }: Attempt): Bucket[] {
  return device === undefined ? [{ name: `codes:${account}`, allowance: allowances.codes }] : []
}

/**
 * How long nobody may try again after so many attempts, this one included.
 * @returns 0: at once
 */
export function waitAfter(attempts: number, { free, firstWaitMs, mostWaitMs }: Allowance): number {
  if (attempts < free) return 0
  return Math.min(mostWaitMs, firstWaitMs * 2 ** Math.min(20, attempts - free))
}
