/** A second factor, as stored. */
export interface TotpRecord {
  /** Sealed, see TwoFactor. */
  readonly secret: string
  /** Time step of the last code that was taken: neither it nor an earlier one is taken again. */
  readonly lastStep: number
  /** SHA-256 of each recovery code that is left, hex. */
  readonly recovery: readonly string[]
}

/** A set-up link, as stored. */
export interface LinkRecord {
  /** Of its token, see `digestToken`. */
  readonly digest: string
  readonly expiresAtMs: number
}

interface AccountBase {
  /** Unique over all kinds, and never used again. */
  readonly id: number
  /** Unique over all kinds, whatever the case of its letters. */
  readonly username: string
  /** Argon2 in PHC form; "": none, so that only a link leads in. */
  readonly passwordHash: string
  readonly disabled: boolean
  /** Sessions of an earlier generation have ended: see `withoutSessions`. */
  readonly generation: number
  readonly createdAtMs: number
  readonly totp?: TotpRecord
  /** A link that was given out to set a new password; gone once it is used. */
  readonly link?: LinkRecord
}

/** May do everything. */
export interface AdminAccount extends AccountBase {
  readonly kind: 'admin'
}

/** Bound to some containers. */
export interface SubUserAccount extends AccountBase {
  readonly kind: 'sub_user'
  readonly scopes: readonly string[]
  readonly containerUuids: readonly string[]
  /** Ids of images that it may reinstall from; `null`: all that are enabled. */
  readonly imageIds: readonly string[] | null
  /** See SubUserBounds. */
  readonly portMappingLimit: number
  /** ms since 1970; 0: never. */
  readonly expiresAtMs: number
  /** Of its access code: SHA-256, hex, and the code itself encrypted, see AccessCodes. */
  readonly codeDigest: string
  readonly sealedCode: string
  /** `ref` of who made it. */
  readonly createdBy: string
  /** `Principal.root` of the limited caller that created the account; absent: the account counts for itself. */
  readonly root?: string
  /** `boundRoot` of the caller that created it: whose limit of sub-users it counts for; absent: of `root`. */
  readonly boundRoot?: string
}

/** A person who logs in with a name and a password. */
export type Account = AdminAccount | SubUserAccount

export type AccountKind = Account['kind']

/** Whether it may be used: neither disabled nor expired. */
export function isUsable(account: Account, nowMs: number): boolean {
  const expiresAtMs = account.kind === 'sub_user' ? account.expiresAtMs : 0
  return !account.disabled && (expiresAtMs === 0 || expiresAtMs > nowMs)
}

/** Data per caller (limits, Idempotency-Keys, audit entries) is stored under it: `admin:3`, `subuser:4`. */
export function refOf({ kind, id }: Pick<Account, 'kind' | 'id'>): string {
  return `${kind === 'admin' ? 'admin' : 'subuser'}:${id}`
}

/** The caller whose limits an account shares, see `Principal.root`. */
export function rootAccountOf(account: Account): string {
  return (account.kind === 'sub_user' && account.root) || refOf(account)
}

/** Ends all sessions that the account has, at every gateway, with the change that this is part of. */
export function withoutSessions<A extends Account>(account: A): A {
  return { ...account, generation: account.generation + 1 }
}

/** Form of user names: no colon, which is in the names of keys' callers (`api:NAME`). */
export const usernamePattern = '^[A-Za-z0-9][A-Za-z0-9._@+-]{0,63}$'
export const usernameRule =
  'must be 1 to 64 letters, digits, ".", "_", "@", "+" or "-", starting with a letter or digit'
