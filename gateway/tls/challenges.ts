import { createHash } from 'node:crypto'
import type { ChallengeMethod } from './acme/obtain.js'
import type { KeyedChain } from './certificate.js'
import { makeSelfSigned } from './keys.js'
import type { OpenChallenge, TlsDocuments } from './tls-settings.js'

/** Name of the protocol in which an authority validates a name (RFC 8737, 6.2). */
export const acmeProtocol = 'acme-tls/1'

const prefix = '/.well-known/acme-challenge/'
const certificateMs = 24 * 3_600_000

/** Answers challenges of certificate authorities, including challenges of orders by other gateways. */
export class Challenges {
  #certificate: { readonly of: OpenChallenge; readonly material: Promise<KeyedChain> } | undefined

  constructor(private readonly documents: Pick<TlsDocuments, 'challenge'>) {}

  /** Returns the challenge that the certificate authority can request now. `undefined` if no challenge is open. */
  current(method?: ChallengeMethod): OpenChallenge | undefined {
    const open = this.documents.challenge.value
    if (!open || open.untilMs <= Date.now()) return undefined
    return method === undefined || open.method === method ? open : undefined
  }

  /** Answers a request on port 80 (RFC 8555, 8.3). @returns undefined if the open challenge has another path */
  answerTo(path: string): string | undefined {
    const open = this.current('http-01')
    return open !== undefined && path === prefix + open.token ? open.keyAuthorization : undefined
  }

  /** True if the path has the form of a challenge, even if the challenge is not open. */
  isAsked(path: string): boolean {
    return path.startsWith(prefix)
  }

  /** Returns the certificate that answers the open challenge (RFC 8737, 3). `undefined`: no challenge is open. */
  certificate(): Promise<KeyedChain> | undefined {
    const of = this.current('tls-alpn-01')
    if (of === undefined) return undefined
    if (this.#certificate?.of !== of) this.#certificate = { of, material: makeAnswer(of) }
    return this.#certificate.material
  }
}

/** Creates a certificate with an extension: the digest of the key authorization, as a DER octet string. */
function makeAnswer({ target, keyAuthorization }: OpenChallenge): Promise<KeyedChain> {
  const digest = createHash('sha256').update(keyAuthorization).digest()
  const value = Buffer.concat([Buffer.of(4, digest.length), digest])
  const extension = { id: '1.3.6.1.5.5.7.1.31', value }
  return makeSelfSigned(target, { lifetimeMs: certificateMs, extension })
}
