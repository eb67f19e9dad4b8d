import { createHmac, hkdfSync, randomBytes, timingSafeEqual } from 'node:crypto'
import type { Account } from './account-record.js'

/*
 * Device cookies (OWASP). A device that has logged in gets a cookie. It contains a random name, and for each account a
 * proof that only this installation can create. The cookie gives no access. Failed logins from known devices are
 * counted separately, so that strangers cannot lock out the user. When the generation of an account changes, for
 * example with a new password, its proofs become invalid.
 */

/** Number of accounts that a device's cookie remembers. If there are more, the oldest are dropped. */
const maxAccounts = 8
const form = /^[A-Za-z0-9_-]{22}(\.[A-Za-z0-9_-]{22}){1,8}$/

/** An account, and its `generation`. A device's proof is only valid for this generation. */
type KnownAccount = Pick<Account, 'id' | 'generation'>

export class KnownDevices {
  readonly #key: Buffer

  /** @param secret 32 secret bytes, the same in all gateways on one store */
  constructor(secret: Buffer) {
    this.#key = Buffer.from(hkdfSync('sha256', secret, '', 'known devices', 32))
  }

  /** Returns the name of the device if it has logged in to the account before. */
  find(cookie: string | undefined, account: KnownAccount): string | undefined {
    const [name, ...proofs] = parse(cookie)
    if (name === undefined) return undefined
    const want = this.#proof(name, account)
    return proofs.some((proof) => timingSafeEqual(Buffer.from(proof), Buffer.from(want))) ? name : undefined
  }

  /** Returns the cookie with an added proof that the device has logged in to the account. */
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
