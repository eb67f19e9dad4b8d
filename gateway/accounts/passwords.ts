import { randomBytes } from 'node:crypto'
import { hash, verify } from '@node-rs/argon2'
import { BerthError, invalidField } from '../../shared/errors.js'
import { rateLimited } from '../rate-limit.js'
import { Gate } from './gate.js'

/** argon2id is the library's default. Source: OWASP Password Storage Cheat Sheet, 19 MiB and two passes */
const cost = { memoryCost: 19_456, timeCost: 2, parallelism: 1 } as const

/** Each takes 19 MiB, and one of the process's four threads for such work. */
const atOnce = 4
/** Beyond it a log-in is refused at once: its turn would come too late. */
const maxWaiting = 200

export const passwordLength = { admin: 12, sub_user: 8, most: 256 } as const

/** Hashes and checks passwords, few at a time. */
export class Passwords {
  readonly #gate = new Gate(atOnce, maxWaiting)
  /** Nobody's: with it an unknown name takes as long as a known one. */
  readonly #dummy = dummyHash()

  /** @throws {BerthError} `rate_limited` when too many wait */
  hash(password: string): Promise<string> {
    return this.#turn(true, () => hash(prepared(password), cost))
  }

  /**
   * Whether it is the password. It takes the same time without a hash.
   * @param passwordHash "" or undefined: nobody's
   * @param first whether it goes before others that wait
   * @throws {BerthError} `rate_limited` when too many wait
   */
  async matches(passwordHash: string | undefined, password: string, first = false): Promise<boolean> {
    const known = passwordHash !== undefined && passwordHash !== ''
    const against = known ? passwordHash : this.#dummy
    const same = await this.#turn(first, () => verify(against, prepared(password), cost))
    return same && known
  }

  #turn<T>(first: boolean, work: () => Promise<T>): Promise<T> {
    return this.#gate.enter(work, first) ?? Promise.reject(tooMany())
  }
}

function tooMany(): BerthError {
  return rateLimited('too many people log in at the moment; try again later', 2000)
}

/** The same text however a keyboard composes it (RFC 8265, 4.2.1). */
function prepared(password: string): string {
  return password.normalize('NFC')
}

function dummyHash(): string {
  const base64 = (bytes: number) => randomBytes(bytes).toString('base64').replaceAll('=', '')
  const { memoryCost, timeCost, parallelism } = cost
  return `$argon2id$v=19$m=${memoryCost},t=${timeCost},p=${parallelism}$${base64(16)}$${base64(32)}`
}

/**
 * Checks a new password.
 * @throws {BerthError} `invalid_field`
 */
export function checkNewPassword(
  password: string,
  { username, kind }: { username: string; kind: 'admin' | 'sub_user' },
  field = 'password',
): void {
  const length = [...password].length
  if (length < passwordLength[kind] || length > passwordLength.most)
    throw invalidField(
      field,
      `${field}: must have ${passwordLength[kind]} to ${passwordLength.most} characters`,
    )
  if (new Set(password).size < 4)
    throw invalidField(field, `${field}: must have at least four different characters`)
  if (password.toLowerCase().includes(username.toLowerCase()) && username.length >= 4)
    throw invalidField(field, `${field}: must not contain the user name`)
}
