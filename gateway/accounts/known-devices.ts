import { createHmac, hkdfSync, randomBytes, timingSafeEqual } from 'node:crypto'
import type { Account } from './account-record.js'

/*
 * A device that has logged in gets a cookie: its random name, and for each account a proof that only this installation
 * can create. It gives no access. Attempts from the device are counted separately from those of strangers (OWASP:
 * device cookies), so that strangers cannot lock its user out. A proof becomes invalid with the account's generation:
 * after a new password or second factor a device must log in again to be known.
 */

/** Accounts that one device is remembered for; beyond it the first are forgotten. */
const maxAccounts = 8
const form = /^[A-Za-z0-9_-]{22}(\.[A-Za-z0-9_-]{22}){1,8}$/

/** The account and generation that a proof is valid for. */
type KnownAccount = Pick<Account, 'id' | 'generation'>

export class KnownDevices {
  readonly #key: Buffer

  /** @param secret 32 bytes, the same in all gateways on one store */
  constructor(secret: Buffer) {
    this.#key = Buffer.from(hkdfSync('sha256', secret, '', 'known devices', 32))
  }

  /** Name of the device, if it logged in to the account before. */
  find(cookie: string | undefined, account: KnownAccount): string | undefined {
    const [name, ...proofs] = parse(cookie)
    if (name === undefined) return undefined
    const want = this.#proof(name, account)
    return proofs.some((proof) => timingSafeEqual(Buffer.from(proof), Buffer.from(want))) ? name : undefined
  }

  /** The cookie with an additional proof for the account. */
  add(cookie: string | undefined, account: KnownAccount): string {
    const [name = randomBytes(16).toString('base64url'), ...proofs] = parse(cookie)
    const proof = this.#proof(name, account)
    const others = proofs.filter((one) => one !== proof)
    return [name, ...[...others, proof].slice(-maxAccounts)].join('.')
  }

  #proof(name: string, { id, generation }: KnownAccount): string {
    const text = `${name} ${id} ${generation}`
    return createHmac('sha256', this.#key).update(text).digest('base64url').slice(0, 22)
  }
}

function parse(cookie: string | undefined): string[] {
  return cookie !== undefined && form.test(cookie) ? cookie.split('.') : []
}
