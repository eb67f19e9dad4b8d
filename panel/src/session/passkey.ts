import { ApiFailure } from '../api/failure.ts'

/** Static methods of `PublicKeyCredential`, declared here because TypeScript's DOM types may lack them. */
interface Parsers {
  parseCreationOptionsFromJSON(options: object): PublicKeyCredentialCreationOptions
  parseRequestOptionsFromJSON(options: object): PublicKeyCredentialRequestOptions
}

/** True if the address of the panel contains an IP address. Passkeys need a domain name or `localhost`. */
const isIpAddress = /^[\d.]+$|:/.test(location.hostname)

/** True if this browser can create and use passkeys here. Browsers offer them only under TLS and on loopback. */
export const hasPasskeys =
  !isIpAddress && typeof PublicKeyCredential === 'function' && 'parseRequestOptionsFromJSON' in PublicKeyCredential

const parsers = (): Parsers => PublicKeyCredential

/** Lets the browser create a passkey. @throws {ApiFailure} `passkey_canceled`, `passkey_failed` */
export async function createPasskey<Result>(options: object): Promise<Result> {
  const publicKey = parsers().parseCreationOptionsFromJSON(options)
  return toJson(await explained(navigator.credentials.create({ publicKey })))
}

/** Lets the browser sign a challenge with a passkey. @throws {ApiFailure} `passkey_canceled`, `passkey_failed` */
export async function usePasskey<Result>(options: object): Promise<Result> {
  const publicKey = parsers().parseRequestOptionsFromJSON(options)
  return toJson(await explained(navigator.credentials.get({ publicKey })))
}

/** Converts errors of the browser to failures for which the panel has a text. */
async function explained(work: Promise<Credential | null>): Promise<Credential | null> {
  try {
    return await work
  } catch (thrown) {
    const isCanceled = thrown instanceof DOMException && ['NotAllowedError', 'AbortError'].includes(thrown.name)
    throw new ApiFailure(isCanceled ? 'passkey_canceled' : 'passkey_failed', String(thrown))
  }
}

function toJson<Result>(credential: Credential | null): Result {
  return (credential as PublicKeyCredential).toJSON() as Result
}
