import { isUsable, type Account } from './account-record.js'

/** A stored session. Its key in the store is the digest of its token. */
export interface SessionRecord {
  readonly accountId: number
  /** Value of the account's `generation` at login. The session has ended if the account now has another value. */
  readonly generation: number
  /** Client address at login. */
  readonly address: string
  readonly userAgent: string
  readonly createdAtMs: number
  readonly expiresAtMs: number
  /** Time in ms without any request after which the session ends. */
  readonly idleMs: number
  /** Time in ms since 1970 of the last password or code that the user entered. Some changes require a recent time. */
  readonly confirmedAtMs: number
  /** Digest of the session of an administrator who sees the panel as this account. Absent: the user has logged in. */
  readonly viewerDigest?: string
}

/** The device of a login, as shown in the list of sessions. */
export interface Device {
  readonly address: string
  readonly userAgent: string
}

const hourMs = 3_600_000
const idleHours = { short: 2, long: 12 } as const
const lifetimeMs = 7 * 24 * hourMs
const longestUserAgent = 200

/**
 * Plans a session that begins now.
 * @param keep true if the user asked to stay logged in; ignored for sub-users, who always stay logged in
 */
export function planSession(
  account: Account,
  { address, userAgent }: Device,
  { nowMs, keep }: { nowMs: number; keep: boolean },
): SessionRecord {
  const idle = keep || account.kind === 'sub_user' ? idleHours.long : idleHours.short
  return {
    accountId: account.id,
    generation: account.generation,
    address,
    userAgent: userAgent.slice(0, longestUserAgent),
    createdAtMs: nowMs,
    expiresAtMs: nowMs + lifetimeMs,
    idleMs: idle * hourMs,
    confirmedAtMs: nowMs,
  }
}

/** Plans a session in which an administrator sees the panel as `account`. It lasts as long as the administrator's session. */
export function planView(
  account: Account,
  viewer: { readonly digest: string; readonly record: SessionRecord },
  nowMs: number,
): SessionRecord {
  const { id: accountId, generation } = account
  return { ...viewer.record, accountId, generation, createdAtMs: nowMs, viewerDigest: viewer.digest }
}

/** True if the user asked to stay logged in. */
export function keeps({ idleMs }: SessionRecord): boolean {
  return idleMs > idleHours.short * hourMs
}

/** True if the session belongs to the account and has not ended. Does not check the idle time. */
export function isCurrent(record: SessionRecord, account: Account | undefined, nowMs: number): account is Account {
  return (
    account?.id === record.accountId &&
    isUsable(account, nowMs) &&
    account.generation === record.generation &&
    record.expiresAtMs > nowMs
  )
}
