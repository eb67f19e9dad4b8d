import { createHash, X509Certificate } from 'node:crypto'
import {
  connect,
  type ConnectionOptions,
  type DetailedPeerCertificate,
  type PeerCertificate,
  type TLSSocket,
} from 'node:tls'
import { BerthError } from './errors.js'
import { createPeerCheck, identityDnsName } from './identity.js'
import { splitHostPort } from './join-token.js'
import { OutboundClient, readText } from './outbound-request.js'

const timeoutMs = 15_000
const timeouts = { connectMs: timeoutMs, headersMs: timeoutMs, bodyMs: timeoutMs }
const maxAnswerBytes = 1024 * 1024
/** Error codes after which the next endpoint is tried. */
const otherMayAnswer = ['gateway_unreachable', 'gateway_untrusted', 'store_unavailable']
const joinName = identityDnsName({ role: 'join' })

/** Gateways that accept a join token. */
export interface JoinTarget {
  /** Addresses of join endpoints, as host:port. They are tried in this order. */
  readonly addresses: readonly string[]
  /** SHA-256 fingerprint of the CA certificate (DER), in lower-case hexadecimal. */
  readonly caFingerprint: string
}

export interface JoinReply {
  /** Fields of the JSON object in the answer. Their types are not checked. */
  readonly fields: Readonly<Record<string, unknown>>
  /** CA certificate in PEM. It matches the fingerprint. */
  readonly caPem: string
}

/**
 * Sends a request to the join endpoints in turn, until one can handle it. Does not send the request to an endpoint
 * whose CA does not match the fingerprint.
 * @param path path of the request
 * @param body content of the request, sent as JSON
 * @throws {BerthError} `gateway_untrusted`, `gateway_unreachable`, or the code of the gateway's refusal
 */
export async function askJoinEndpoint(target: JoinTarget, path: string, body: object): Promise<JoinReply> {
  let failure: unknown
  for (const address of target.addresses)
    try {
      return await ask({ address, path, body }, await fetchAuthority(address, target.caFingerprint))
    } catch (error) {
      failure ??= error
      if (!(error instanceof BerthError && otherMayAnswer.includes(error.code))) throw error
    }
  throw failure
}

/** Sends the request to one endpoint. @param caPem the endpoint's CA certificate */
async function ask(
  { address, path, body }: { readonly address: string; readonly path: string; readonly body: object },
  caPem: string,
): Promise<JoinReply> {
  const client = new OutboundClient({
    timeouts,
    tls: { ca: caPem, servername: joinName, minVersion: 'TLSv1.3', checkServerIdentity: checkJoinRole },
  })
  try {
    const answer = await client.send(`https://${address}${path}`, {
      method: 'POST',
      signal: AbortSignal.timeout(timeoutMs),
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    })
    return { fields: parseAnswer(answer.status, await readText(answer.body, maxAnswerBytes)), caPem }
  } catch (cause) {
    throw unreachable(address, cause)
  } finally {
    client.close()
  }
}

/** Gets the CA certificate of an endpoint and compares it with the fingerprint. Sends nothing secret. */
async function fetchAuthority(address: string, caFingerprint: string): Promise<string> {
  const socket = await openTls(address, { rejectUnauthorized: false })
  try {
    let shown: DetailedPeerCertificate | undefined = socket.getPeerCertificate(true)
    while (shown?.raw && shown.issuerCertificate && shown.issuerCertificate !== shown) shown = shown.issuerCertificate
    const digest = shown?.raw ? createHash('sha256').update(shown.raw).digest('hex') : ''
    if (!shown || digest !== caFingerprint)
      throw new BerthError(
        'forbidden',
        'gateway_untrusted',
        `${address} is not the gateway that created this token: it has another certificate authority. ` +
          'If the certificate authority of the fleet was replaced, create a new token',
      )
    return new X509Certificate(shown.raw).toString()
  } finally {
    socket.destroy()
  }
}

function openTls(address: string, options: ConnectionOptions): Promise<TLSSocket> {
  const { host, port } = splitHostPort(address)
  return new Promise((resolve, reject) => {
    const fail = (cause: unknown): void => {
      socket.destroy()
      reject(unreachable(address, cause))
    }
    const socket = connect({ host, port, servername: joinName, minVersion: 'TLSv1.3', ...options }, () => {
      socket.off('error', fail)
      socket.on('error', () => undefined)
      resolve(socket)
    })
    socket.setTimeout(timeoutMs, () => fail(new Error(`no answer within ${timeoutMs / 1000} s`)))
    socket.on('error', fail)
  })
}

function checkJoinRole(_name: string, certificate: PeerCertificate): Error | undefined {
  try {
    createPeerCheck({ identity: { role: 'join' } })(certificate)
    return undefined
  } catch (error) {
    return error as Error
  }
}

function parseAnswer(status: number, text: string): JoinReply['fields'] {
  const answer = parseObject(text)
  if (status === 200) return answer
  const { code, message } = answer
  throw new BerthError(
    'forbidden',
    typeof code === 'string' ? code : 'join_refused',
    typeof message === 'string' ? message : `the gateway answered with HTTP status ${status}`,
  )
}

function parseObject(text: string): Record<string, unknown> {
  try {
    const parsed: unknown = JSON.parse(text)
    if (typeof parsed !== 'object' || parsed === null) throw new TypeError('not an object')
    return parsed as Record<string, unknown>
  } catch (cause) {
    throw new BerthError('internal', 'gateway_untrusted', 'the answer of the gateway is not JSON', { cause })
  }
}

function unreachable(address: string, cause: unknown): BerthError {
  if (cause instanceof BerthError) return cause
  return new BerthError('unavailable', 'gateway_unreachable', `the gateway cannot be reached at ${address}`, { cause })
}
