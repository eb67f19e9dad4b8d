import { conflict } from '../../shared/errors.js'

/** Maximum number of objects of one kind that may exist. */
export interface CreationLimit {
  /** Limit of a caller that may access only some containers. Objects that the caller's keys created count, too. */
  readonly bound: number
  /** Limit of an API key that has limits, but access to all containers. All unlimited callers share one such limit. */
  readonly others: number
}

export interface CreationLimits {
  readonly apiKeys: CreationLimit
  readonly subUsers: CreationLimit
}

export const defaultCreationLimits: CreationLimits = {
  apiKeys: { bound: 100, others: 10_000 },
  subUsers: { bound: 500, others: 50_000 },
}

/** The quota towards which the objects of a creator count. */
export interface CreationShare {
  /**
   * `ref` of the caller that has the quota. It is the first caller restricted to containers in the chain from the first
   * creator to the caller, or else the first limited one. "": the quota of all unlimited callers.
   */
  readonly share: string
  readonly isBound: boolean
}

/** A kind of objects whose number is limited. */
export interface LimitedKind {
  readonly code: string
  readonly name: string
  readonly limit: CreationLimit
  /** Name of the limit in gateway.yaml. */
  readonly setting: string
}

/**
 * Checks that a caller may create another object of this kind.
 * @param shares `CreationShare.share` of each existing object
 * @throws {BerthError} the code of the kind if the limit is reached
 */
export function checkCreationLimit(
  { share, isBound }: CreationShare,
  shares: Iterable<string>,
  { code, name, limit, setting }: LimitedKind,
): void {
  const most = isBound ? limit.bound : limit.others
  let count = 0
  for (const other of shares) if (other === share) count++
  if (count < most) return
  const whose = share === '' ? 'administrators and unlimited keys have' : 'this caller has'
  throw conflict(
    code,
    `${whose} ${count} ${name}, the limit is ${most}: delete some first, or raise ` +
      `limits.${isBound ? 'bound_' : ''}${setting} in gateway.yaml`,
  )
}
