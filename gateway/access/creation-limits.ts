import { conflict } from '../../shared/errors.js'

/** Limits on the number of existing objects of a kind. */
export interface CreationLimit {
  /** For a caller that is bound to containers, together with everything that its keys create. */
  readonly bound: number
  /** For any other limited key, and for all administrators and unlimited keys together. */
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

/** The share that a caller's new objects count for. */
export interface CreationShare {
  /** `ref` of the first key that is bound to containers, else of the first limited key; "": the caller is unlimited. */
  readonly share: string
  readonly isBound: boolean
}

/** A kind of things whose number is limited. */
export interface LimitedKind {
  readonly code: string
  readonly name: string
  readonly limit: CreationLimit
  /** Name of the limit in gateway.yaml. */
  readonly setting: string
}

/**
 * @param shares shares of all existing objects of the kind
 * @throws {BerthError} the kind's code
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
