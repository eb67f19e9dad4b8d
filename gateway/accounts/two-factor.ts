import { hash, hkdfSync, randomBytes } from 'node:crypto'
import { generateSecret, generateURI, verifySync } from 'otplib'
import { open, seal } from '../../shared/sealing.js'
import type { Account, TotpRecord } from './account-record.js'
import type { GivenPasskey } from './passkeys.js'
import { recoveryOf, withRecovery } from './second-factors.js'

const recoveryCodes = 10
/** Bytes of a recovery code. A fast digest is enough, because nobody can guess 80 random bits. */
const recoveryBytes = 10
const stepSeconds = 30
const base32 = 'abcdefghijklmnopqrstuvwxyz234567'

/** A code of an authenticator app, or a recovery code. */
export type CodeFactor = { readonly code: string } | { readonly recoveryCode: string }

/** The credential that is required in addition to the password. */
export type SecondFactor = CodeFactor | GivenPasskey

/** Codes of authenticator apps (RFC 6238), and recovery codes for users who have lost the app. */
export class TwoFactor {
  readonly #key: Buffer

  /** @param secret 32 secret bytes, the same in all gateways on one store */
  constructor(secret: Buffer) {
    this.#key = Buffer.from(hkdfSync('sha256', secret, '', 'second factors', 32))
  }

  makeSecret(): string {
    return generateSecret({ length: 20 })
  }

  /** Content of the QR code for authenticator apps. @param issuer name of the provider */
  uriOf(secret: string, username: string, issuer: string): string {
    return generateURI({ issuer, label: username, secret })
  }

  /** Encrypts a secret. @param accountId account that the secret belongs to; decryption for another account fails */
  seal(secret: string, accountId: number): string {
    return seal(this.#key, secret, `totp ${accountId}`)
  }

  open(sealed: string, accountId: number): string {
    return open(this.#key, sealed, `totp ${accountId}`)
  }

  /** Creates the record of a new second factor. Also creates its recovery codes, which are shown only once. */
  begin(sealed: string, lastStep: number): { totp: TotpRecord; codes: string[] } {
    const { recovery, codes } = this.makeRecoveryCodes()
    return { totp: { secret: sealed, lastStep, recovery }, codes }
  }

  /** Generates recovery codes to show once, and their digests to store. */
  makeRecoveryCodes(): { recovery: string[]; codes: string[] } {
    const codes = Array.from({ length: recoveryCodes }, makeRecoveryCode)
    return { recovery: codes.map(digestRecoveryCode), codes }
  }

  /** Returns the account after the use of a code. `undefined`: the code is wrong, or was used before. */
  use<A extends Account>(account: A, given: CodeFactor): A | undefined {
    if ('recoveryCode' in given) return useRecoveryCode(account, given.recoveryCode)
    const { totp } = account
    if (totp === undefined) return undefined
    const lastStep = this.findStep(this.open(totp.secret, account.id), given.code, totp.lastStep)
    return lastStep === undefined ? undefined : { ...account, totp: { ...totp, lastStep } }
  }

  /**
   * Finds the time step of a code. Codes of the previous and the next step are accepted, because clocks differ.
   * @param afterStep codes of this step and earlier steps are rejected
   * @returns `undefined`: the code is wrong
   */
  findStep(secret: string, code: string, afterStep: number): number | undefined {
    const token = code.replaceAll(' ', '')
    if (!/^\d{6}$/.test(token)) return undefined
    // The library's option afterTimeStep is not used, because it throws if the clock was set back.
    const result = verifySync({ secret, token, epochTolerance: stepSeconds })
    return result.valid && 'timeStep' in result && result.timeStep > afterStep ? result.timeStep : undefined
  }
}

function useRecoveryCode<A extends Account>(account: A, code: string): A | undefined {
  const digest = digestRecoveryCode(code)
  const before = recoveryOf(account)
  const recovery = before.filter((one) => one !== digest)
  return recovery.length < before.length ? withRecovery(account, recovery) : undefined
}

/** Generates a recovery code: four groups of four characters, for example `k3vq-…`. */
function makeRecoveryCode(): string {
  const bits = [...randomBytes(recoveryBytes)].map((byte) => byte.toString(2).padStart(8, '0')).join('')
  const text = (bits.match(/.{5}/g) ?? []).map((five) => base32[parseInt(five, 2)] ?? '').join('')
  return (text.match(/.{4}/g) ?? []).join('-')
}

/** Digest of a recovery code. Case, spaces and dashes do not matter. */
function digestRecoveryCode(code: string): string {
  return hash('sha256', code.toLowerCase().replaceAll(/[\s-]/g, ''), 'hex')
}
