import type { Role } from '../access/roles.js'

export interface TotpRecord {
  /** Secret of the authenticator app, encrypted by TwoFactor. */
  readonly secret: string
  /** Time step of the last accepted code. Codes of this step and of earlier ones are rejected. */
  readonly lastStep: number
  /** SHA-256, in hexadecimal, of each unused recovery code. */
  readonly recovery: readonly string[]
}

/** A public key whose private half a browser, a phone or a security key holds. */
export interface PasskeyRecord {
  /** Id of the credential, in base64url. */
  readonly id: string
  /** Unique among the passkeys of the account, ignoring case. */
  readonly name: string
  /** Public key in the format COSE, in base64url. */
  readonly publicKey: string
  /** Number of uses, according to the authenticator. 0: the authenticator does not count them. */
  readonly counter: number
  /** Ways to reach the authenticator, such as `usb`. Browsers use them as hints. */
  readonly transports: readonly string[]
  /** `RelyingParty.id` for which the passkey was created. */
  readonly partyId: string
  readonly createdAtMs: number
  /** Time of the last use in ms since 1970. 0: the passkey was never used. */
  readonly usedAtMs: number
}

export interface LinkRecord {
  /** SHA-256 of the link's token, see `digestToken`. */
  readonly digest: string
  readonly expiresAtMs: number
}

interface AccountBase {
  /** The id is unique among accounts of all kinds. The id of a deleted account is never used again. */
  readonly id: number
  /** The name is unique among accounts of all kinds, ignoring case. */
  readonly username: string
  /** Argon2 hash in PHC format. "": the account has no password yet. Only a link gives access to the account. */
  readonly passwordHash: string
  readonly disabled: boolean
  /** Number that is raised to end all sessions of the account. A session is valid only if it began with this number. */
  readonly generation: number
  readonly createdAtMs: number
  readonly totp?: TotpRecord
  readonly passkeys?: readonly PasskeyRecord[]
  /** SHA-256, in hexadecimal, of each unused recovery code of an account with passkeys and without `totp`. */
  readonly recovery?: readonly string[]
  /** IANA name of the time zone in which the panel shows times. Absent: the time zone of the browser. */
  readonly timeZone?: string
  /** Link to set a new password. Absent: no link was created, or it was used. */
  readonly link?: LinkRecord
}

/** An administrator, who has access to all containers. */
export interface AdminAccount extends AccountBase {
  readonly kind: 'admin'
  /** Role of the administrator. Absent: `full`. */
  readonly role?: Role
}

/** A customer, who can access only some containers. */
export interface SubUserAccount extends AccountBase {
  readonly kind: 'sub_user'
  readonly scopes: readonly string[]
  readonly containerUuids: readonly string[]
  /** Ids of the images for reinstallations. `null`: all enabled images. */
  readonly imageIds: readonly string[] | null
  /** Maximum number of ports in the mappings of each container, see SubUserBounds. */
  readonly portMappingLimit: number
  /** Time in ms since 1970 when the account expires. 0: never. */
  readonly expiresAtMs: number
  /** SHA-256 of the access code in hexadecimal, and the code encrypted by AccessCodes. */
  readonly codeDigest: string
  readonly sealedCode: string
  /** `ref` of the caller that created the account. */
  readonly createdBy: string
  /** `Principal.root` of the creator: the caller whose limits the account shares. Absent: the creator was unlimited. */
  readonly root?: string
  /**
   * `ref` of the caller whose quota of sub-users includes this account. It is a caller that is restricted to
   * containers. Absent: the account counts towards the quota of `root`.
   */
  readonly boundRoot?: string
}

/** An account of a user who logs in with a name and a password. */
export type Account = AdminAccount | SubUserAccount

export type AccountKind = Account['kind']

export function roleOf({ role = 'full' }: Pick<AdminAccount, 'role'>): Role {
  return role
}

/** True if the account is neither disabled nor expired. */
export function isUsable(account: Account, nowMs: number): boolean {
  const expiresAtMs = account.kind === 'sub_user' ? account.expiresAtMs : 0
  return !account.disabled && (expiresAtMs === 0 || expiresAtMs > nowMs)
}

/** `ref` of an account as a caller: `admin:3`, `subuser:4`. Audit entries and Idempotency-Keys are stored under it. */
export function refOf({ kind, id }: Pick<Account, 'kind' | 'id'>): string {
  return `${kind === 'admin' ? 'admin' : 'subuser'}:${id}`
}

/** Returns the `ref` of the caller whose limits apply to an account: its `root`, or else the account itself. */
export function rootAccountOf(account: Account): string {
  return (account.kind === 'sub_user' && account.root) || refOf(account)
}

/** Returns the account with a new `generation`, which ends all its sessions at all gateways. */
export function withoutSessions<A extends Account>(account: A): A {
  return { ...account, generation: account.generation + 1 }
}

/**
 * Pattern of user names. It excludes colons, because callers with a key are named `api:NAME`, and names that stand for
 * other actors (see `shownActor`).
 */
export const usernamePattern = '^(?!(?:provider|system)$)[A-Za-z0-9][A-Za-z0-9._@+-]{0,63}$'
export const usernameRule =
  'must be 1 to 64 letters, digits, ".", "_", "@", "+" or "-", starting with a letter or digit, and not "provider" or "system"'
