export const loginMethods = ['password', 'totp', 'recovery_code', 'passkey', 'setup_link', 'access_code'] as const
export type LoginMethod = (typeof loginMethods)[number]

/** Reasons why a login failed. Administrators see the reason, but the client does not. */
export const loginReasons = [
  'unknown_user',
  'wrong_password',
  'no_password',
  'disabled',
  'code_required',
  'wrong_code',
  'wrong_passkey',
  'expired',
  'rate_limited',
] as const
export type LoginReason = (typeof loginReasons)[number]

export interface LoginAttempt {
  /** Name as typed. It is only stored if it has the form of a name, because users sometimes type a password here. */
  readonly username: string
  /** Id of the account. 0: no account has this name. */
  readonly accountId: number
  readonly address: string
  readonly userAgent: string
  readonly method: LoginMethod
  /** Reason of the failure. "": the login succeeded. */
  readonly reason: LoginReason | ''
}

/** A row of the login log. Attempts within a minute that differ only in their time share a row. */
export interface LoginRecord extends LoginAttempt {
  /** Time of the first attempt in ms since 1970. */
  readonly timeMs: number
  readonly count: number
}

export interface LoginFilter {
  readonly username?: string | undefined
  readonly address?: string | undefined
  readonly method?: string | undefined
  readonly reason?: string | undefined
  readonly success?: boolean | undefined
  readonly accountId?: number | undefined
  /** Start of the period in ms since 1970. The start and the end (`toMs`) belong to the period. */
  readonly fromMs?: number | undefined
  readonly toMs?: number | undefined
}

const longestUserAgent = 200
const nameForm = /^[A-Za-z0-9][A-Za-z0-9._@-]{0,63}$/

/** Returns the user name if it may be stored, otherwise "". */
export function loggedName(username: string): string {
  return nameForm.test(username) ? username : ''
}

/** Returns a browser's `User-Agent`, shortened. Characters that are not printable ASCII become “?”. */
export function loggedAgent(userAgent: string | undefined): string {
  return (userAgent ?? '').replace(/[^\x20-\x7e]/g, '?').slice(0, longestUserAgent)
}

const compared = ['address', 'method', 'reason', 'accountId'] as const

export function matchesLogin(record: LoginRecord, filter: LoginFilter): boolean {
  const { username, success, fromMs = -Infinity, toMs = Infinity } = filter
  return (
    compared.every((name) => filter[name] === undefined || record[name] === filter[name]) &&
    (username === undefined || record.username.toLowerCase() === username.toLowerCase()) &&
    (success === undefined || (record.reason === '') === success) &&
    record.timeMs >= fromMs &&
    record.timeMs <= toMs
  )
}
