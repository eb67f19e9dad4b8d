import { hash } from 'node:crypto'
import type {
  AuthenticationResponseJSON,
  AuthenticatorTransportFuture,
  RegistrationResponseJSON,
} from '@simplewebauthn/server'
import { conflict } from '../../shared/errors.js'
import { perMinute, RateLimit, rateLimited } from '../../shared/rate-limit.js'
import { sourceOf } from '../../shared/source-address.js'
import { steadyClock } from '../../shared/steady-clock.js'
import type { Account, PasskeyRecord } from './account-record.js'
import { challengeMs, type ChallengePurpose, type PasskeyChallenges } from './passkey-challenges.js'
import type { RelyingParty } from './relying-party.js'

/** A challenge that a passkey has signed, for a login or a confirmation. */
export interface GivenPasskey {
  readonly passkey: AuthenticationResponseJSON
  readonly party: RelyingParty
}

/** Data for `PublicKeyCredential.parseCreationOptionsFromJSON` or `parseRequestOptionsFromJSON` of the browser. */
export type PasskeyOptions = Readonly<Record<string, unknown>>

/** The id of a passkey in the API. */
export function passkeyId({ id }: Pick<PasskeyRecord, 'id'>): string {
  return hash('sha256', id, 'hex').slice(0, 32)
}

/** Maximum number of challenges that one address gets per minute. Each challenge takes space in the store. */
const challengesPerMinute = 30
/** Purposes for which a passkey replaces the password. The device must therefore have verified the user. */
const withoutPassword: readonly ChallengePurpose[] = ['login', 'confirm']
/** Maximum size in bytes of a public key. RSA keys of 4096 bits have about 550 bytes. */
const maxKeyBytes = 1024

/** Loads the library when it is first needed, because it would delay the start of the gateway. */
const loadLibrary = () => import('@simplewebauthn/server')

/** Creates and checks passkeys. All methods can throw BerthError `store_unavailable`. */
export class Passkeys {
  readonly #limit = new RateLimit(perMinute(challengesPerMinute))

  constructor(private readonly challenges: PasskeyChallenges) {}

  /** Options for a new passkey. @param provider name of the provider, which the browser shows */
  async optionsToAdd(account: Account, party: RelyingParty, provider: string): Promise<PasskeyOptions> {
    const { generateRegistrationOptions } = await loadLibrary()
    const options = await generateRegistrationOptions({
      rpID: party.id,
      rpName: provider,
      userName: account.username,
      userID: new Uint8Array(Buffer.from(String(account.id))),
      challenge: await this.challenges.begin('add', account.id),
      timeout: challengeMs,
      excludeCredentials: credentialsOf(account, party),
      authenticatorSelection: { residentKey: 'preferred', userVerification: 'preferred' },
    })
    return { ...options }
  }

  /**
   * Options for a login.
   * @param account account whose password was correct; `undefined`: a login without a password
   * @param address IP address of the browser
   * @throws {BerthError} `rate_limited`
   */
  optionsToLogIn(account: Account | undefined, party: RelyingParty, address: string): Promise<PasskeyOptions> {
    return this.#optionsToSign(account ? 'second' : 'login', account, { party, address })
  }

  /**
   * Options with which a logged-in user confirms a sensitive change. @param address IP address of the browser
   * @throws {BerthError} `invalid_state` if the account has no passkey for this relying party, `rate_limited`
   */
  async optionsToConfirm(account: Account, party: RelyingParty, address: string): Promise<PasskeyOptions> {
    if (credentialsOf(account, party).length === 0)
      throw conflict('invalid_state', 'the account has no passkey for this address: use the password or a code')
    return this.#optionsToSign('confirm', account, { party, address })
  }

  async #optionsToSign(
    purpose: ChallengePurpose,
    account: Account | undefined,
    { party, address }: { party: RelyingParty; address: string },
  ): Promise<PasskeyOptions> {
    const waitMs = this.#limit.take(sourceOf(address))
    if (waitMs > 0) throw rateLimited('too many attempts with passkeys from this address: try again later', waitMs)
    const { generateAuthenticationOptions } = await loadLibrary()
    const options = await generateAuthenticationOptions({
      rpID: party.id,
      challenge: await this.challenges.begin(purpose, account?.id),
      timeout: challengeMs,
      userVerification: withoutPassword.includes(purpose) ? 'required' : 'preferred',
      ...(account && { allowCredentials: credentialsOf(account, party) }),
    })
    return { ...options }
  }

  /** Checks a new passkey. @returns `undefined` if it is not valid */
  async check(
    account: Account,
    response: RegistrationResponseJSON,
    party: RelyingParty,
  ): Promise<Omit<PasskeyRecord, 'name'> | undefined> {
    const challenge = await this.challenges.take(response.response.clientDataJSON, 'add', account.id)
    if (challenge === undefined || !(await isPlain(response))) return undefined
    const { verifyRegistrationResponse } = await loadLibrary()
    const verified = await verifyRegistrationResponse({
      response,
      expectedChallenge: challenge,
      expectedOrigin: party.origin,
      expectedRPID: party.id,
      requireUserVerification: false,
    }).catch(() => undefined)
    if (!verified?.verified) return undefined
    const { id, publicKey, counter } = verified.registrationInfo.credential
    if (publicKey.length > maxKeyBytes) return undefined
    return {
      id,
      publicKey: Buffer.from(publicKey).toString('base64url'),
      counter,
      transports: response.response.transports ?? [],
      partyId: party.id,
      createdAtMs: steadyClock.now(),
      usedAtMs: 0,
    }
  }

  /**
   * Checks a signed challenge.
   * @returns the passkey after its use, or `undefined` if the signature, challenge, origin or counter is wrong
   */
  async use(account: Account, given: GivenPasskey, purpose: ChallengePurpose): Promise<PasskeyRecord | undefined> {
    const { passkey: response, party } = given
    const accountId = purpose === 'login' ? 0 : account.id
    const challenge = await this.challenges.take(response.response.clientDataJSON, purpose, accountId)
    const known = account.passkeys?.find(({ id, partyId }) => id === response.id && partyId === party.id)
    if (challenge === undefined || known === undefined) return undefined
    const { verifyAuthenticationResponse } = await loadLibrary()
    const verified = await verifyAuthenticationResponse({
      response,
      expectedChallenge: challenge,
      expectedOrigin: party.origin,
      expectedRPID: party.id,
      credential: {
        id: known.id,
        publicKey: new Uint8Array(Buffer.from(known.publicKey, 'base64url')),
        counter: known.counter,
      },
      requireUserVerification: withoutPassword.includes(purpose),
    }).catch(() => undefined)
    if (!verified?.verified) return undefined
    return { ...known, counter: verified.authenticationInfo.newCounter, usedAtMs: steadyClock.now() }
  }
}

/**
 * True if a new passkey has no certificates. Berth does not ask for them. To check certificates, the library would
 * fetch addresses that they name. A caller could thus make this gateway send requests.
 */
async function isPlain({ response }: RegistrationResponseJSON): Promise<boolean> {
  const { decodeAttestationObject, isoBase64URL } = await import('@simplewebauthn/server/helpers')
  try {
    const decoded = decodeAttestationObject(isoBase64URL.toBuffer(response.attestationObject))
    const format = decoded.get('fmt')
    return format === 'none' || (format === 'packed' && decoded.get('attStmt').get('x5c') === undefined)
  } catch {
    return false
  }
}

/** Returns the account with the new state of a used passkey. `undefined`: the passkey is gone, or was copied. */
export function notePasskeyUse<A extends Account>(account: A, used: PasskeyRecord): A | undefined {
  const { passkeys = [] } = account
  const stored = passkeys.find(({ id }) => id === used.id)
  // Authenticators without a counter always send 0. A counter that does not grow belongs to a copy.
  if (!stored || (used.counter > 0 && used.counter <= stored.counter)) return undefined
  const { counter, usedAtMs } = used
  return { ...account, passkeys: passkeys.map((one) => (one === stored ? { ...one, counter, usedAtMs } : one)) }
}

/** Reads the account id in the answer of a browser. 0: the answer does not contain one. */
export function accountIdIn({ response: { userHandle = '' } }: AuthenticationResponseJSON): number {
  const id = Number(Buffer.from(userHandle, 'base64url').toString())
  return Number.isSafeInteger(id) && id > 0 ? id : 0
}

function credentialsOf({ passkeys = [] }: Account, party: RelyingParty) {
  return passkeys
    .filter(({ partyId }) => partyId === party.id)
    .map(({ id, transports }) => ({ id, transports: transports as AuthenticatorTransportFuture[] }))
}
