import type { RedisAddress } from '../redis-access.js'

/** The answer of a Sentinel. undefined: the Sentinel does not answer, or does not know the master. */
export type MasterAnswer = RedisAddress | undefined

/**
 * Chooses the address that a majority of all configured Sentinels names. After a failover, a minority can still name
 * the former master.
 * @param answers one entry for each configured Sentinel
 */
export function planMaster(answers: readonly MasterAnswer[]): RedisAddress | undefined {
  const named = answers.filter((answer) => answer !== undefined)
  return named.find((one) => 2 * named.filter((other) => isSameAddress(one, other)).length > answers.length)
}

export function isSameAddress(one: RedisAddress, other: RedisAddress): boolean {
  return one.host === other.host && one.port === other.port
}

export interface WitnessFacts {
  /** The answers about the master: one entry for each configured Sentinel. */
  readonly answers: readonly MasterAnswer[]
  readonly current: RedisAddress
  /** Time in ms at which the Sentinels answered, by the same clock as `confirmedMs`. */
  readonly nowMs: number
  /** Time in ms at which a replica last confirmed a write to the current master. */
  readonly confirmedMs: number
}

/**
 * Returns the time at which a witness last confirmed that `current` is the master. 0: there is no such witness. The
 * witness is a majority of the Sentinels, or a replica if no Sentinel answers. A minority does not count, because the
 * other Sentinels have possibly chosen another master. A replica of the former master would not know that master.
 */
export function planWitness({ answers, current, nowMs, confirmedMs }: WitnessFacts): number {
  const master = planMaster(answers)
  if (master) return isSameAddress(master, current) ? nowMs : 0
  return answers.every((answer) => answer === undefined) ? confirmedMs : 0
}

export interface MasterWitnesses {
  /** The master that a majority of the Sentinels names now. */
  readonly answer: MasterAnswer
  readonly current: RedisAddress
  /** Time in ms since a witness last confirmed the current master, see `planWitness`. */
  readonly unwitnessedMs: number
}

/** Maximum time in ms without a witness (see `planWitness`). If it is exceeded, this gateway leaves the master. */
export const longestUnwitnessedMs = 10_000

/** Decides whether the gateway must leave the current master. @returns the reason; "": the gateway stays */
export function planLeave({ answer, current, unwitnessedMs }: MasterWitnesses): string {
  if (answer && !isSameAddress(answer, current))
    return `the Sentinels name another master, ${answer.host}:${answer.port}`
  if (!answer && unwitnessedMs > longestUnwitnessedMs)
    return `no majority of the Sentinels has confirmed the master for ${longestUnwitnessedMs} ms`
  return ''
}
