import { randomBytes } from 'node:crypto'
import { hash, verify } from '@node-rs/argon2'
import { BerthError, invalidField } from '../../shared/errors.js'
import { rateLimited } from '../../shared/rate-limit.js'
import { FairGate, type GateClaim } from './fair-gate.js'

/** Parameters of argon2id from the OWASP Password Storage Cheat Sheet: 19 MiB, two passes. */
const defaultCost = { memoryCost: 19_456, timeCost: 2, parallelism: 1 } as const

/**
 * Each running hash uses 19 MiB and one of the process's four worker threads. Work that waits longer than `maxWaitMs`
 * is rejected, because users give up by then.
 */
const limits = {
  atOnce: 4,
  othersAtOnce: 1,
  strangersAtOnce: 2,
  maxWaiting: 200,
  maxStrangers: 40,
  maxWaitMs: 8000,
} as const

/** Cost parameters of argon2, see RFC 9106. */
type Cost = Readonly<Record<keyof typeof defaultCost, number>>

/** The account of a password, and the origin of the request. */
export type PasswordClaim = Omit<GateClaim, 'kind'>

export const passwordLength = { admin: 12, sub_user: 8, most: 256 } as const

/** Hashes and checks passwords. FairGate decides which of the waiting requests is processed next. */
export class Passwords {
  readonly #gate = new FairGate(limits)
  /** Hash against which passwords of unknown names are checked, so that all checks take the same time. */
  readonly #dummy: string

  constructor(private readonly cost: Cost = defaultCost) {
    this.#dummy = dummyHash(cost)
  }

  /** @throws {BerthError} `rate_limited` if too many requests wait */
  hash(password: string, claim: PasswordClaim): Promise<string> {
    return this.#turn({ ...claim, kind: 'other' }, () => hash(prepared(password), this.cost))
  }

  /**
   * Checks a password. The check takes the same time if there is no account or password.
   * @param passwordHash "" or undefined if there is no account or password
   * @throws {BerthError} `rate_limited` if too many requests wait
   */
  async matches(passwordHash: string | undefined, password: string, claim: PasswordClaim): Promise<boolean> {
    const known = passwordHash !== undefined && passwordHash !== ''
    const against = known ? passwordHash : this.#dummy
    const check = (): Promise<boolean> => verify(against, prepared(password), this.cost)
    return (await this.#turn({ ...claim, kind: 'login' }, check)) && known
  }

  /**
   * Rejects a login early if the queue is so long that its password would not be checked.
   * @throws {BerthError} `rate_limited`
   */
  refuseExcess(claim: PasswordClaim): void {
    if (this.#gate.refuses({ ...claim, kind: 'login' })) throw tooMany()
  }

  async #turn<T>(claim: GateClaim, work: () => Promise<T>): Promise<T> {
    const done = await this.#gate.run(claim, work)
    if (done === undefined) throw tooMany()
    return done.value
  }
}

function tooMany(): BerthError {
  return rateLimited('too many passwords are waiting to be checked: try again later', 2000)
}

/** Normalizes a password, because keyboards encode the same characters differently (RFC 8265, 4.2.1). */
function prepared(password: string): string {
  return password.normalize('NFC')
}

function dummyHash({ memoryCost, timeCost, parallelism }: Cost): string {
  const base64 = (bytes: number) => randomBytes(bytes).toString('base64').replaceAll('=', '')
  return `$argon2id$v=19$m=${memoryCost},t=${timeCost},p=${parallelism}$${base64(16)}$${base64(32)}`
}

/** Checks a new password. @throws {BerthError} `invalid_field` */
export function checkNewPassword(
  password: string,
  { username, kind }: { username: string; kind: 'admin' | 'sub_user' },
  field = 'password',
): void {
  const length = [...password].length
  if (length < passwordLength[kind] || length > passwordLength.most)
    throw invalidField(field, `${field}: must have ${passwordLength[kind]} to ${passwordLength.most} characters`)
  if (new Set(password).size < 4) throw invalidField(field, `${field}: must have at least four different characters`)
  if (password.toLowerCase().includes(username.toLowerCase()) && username.length >= 4)
    throw invalidField(field, `${field}: must not contain the user name`)
}
