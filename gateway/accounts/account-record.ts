/** A second factor, as stored. */
export interface TotpRecord {
  /** Sealed, see TwoFactor. */
  readonly secret: string
  /** Time step of the last accepted code: neither it nor an earlier one is accepted again. */
  readonly lastStep: number
  /** SHA-256 of each unused recovery code, hex. */
  readonly recovery: readonly string[]
}

/** A set-up link, as stored. */
export interface LinkRecord {
  /** Digest of its token, see `digestToken`. */
  readonly digest: string
  readonly expiresAtMs: number
}

interface AccountBase {
  /** Unique over all kinds, and never used again. */
  readonly id: number
  /** Unique over all kinds, whatever the case of its letters. */
  readonly username: string
  /** Argon2 in PHC form; "": there is no password, and only a link gives access. */
  readonly passwordHash: string
  readonly disabled: boolean
  /** Sessions of an earlier generation have ended: see `withoutSessions`. */
  readonly generation: number
  readonly createdAtMs: number
  readonly totp?: TotpRecord
  /** A link to set a new password; removed once it is used. */
  readonly link?: LinkRecord
}

/** Has every right. */
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
  /** SHA-256 of its access code, hex, and the code itself encrypted, see AccessCodes. */
  readonly codeDigest: string
  readonly sealedCode: string
  /** `ref` of the caller that created it. */
  readonly createdBy: string
  /** `Principal.root` of the limited caller that created the account; absent: the account counts for itself. */
  readonly root?: string
  /**
   * `boundRoot` of the caller that created it, for whose limit of sub-users it counts; absent: it counts for `root`.
   */
  readonly boundRoot?: string
}

/** A person who logs in with a name and a password. */
export type Account = AdminAccount | SubUserAccount

export type AccountKind = Account['kind']

/** True if it is neither disabled nor expired. */
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

/** Ends all sessions of the account at every gateway, as part of a change of the account. */
export function withoutSessions<A extends Account>(account: A): A {
  return { ...account, generation: account.generation + 1 }
}

/** Pattern of user names: without a colon, which the names of keys' callers contain (`api:NAME`). */
export const usernamePattern = '^[A-Za-z0-9][A-Za-z0-9._@+-]{0,63}$'
export const usernameRule =
  'must be 1 to 64 letters, digits, ".", "_", "@", "+" or "-", starting with a letter or digit'
