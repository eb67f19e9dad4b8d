import { createHash, X509Certificate } from 'node:crypto'
import {
  connect,
  type ConnectionOptions,
  type DetailedPeerCertificate,
  type PeerCertificate,
  type TLSSocket,
} from 'node:tls'
import type { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { BerthError } from '../../shared/errors.js'
import { createPeerCheck, identityDnsName } from '../../shared/identity.js'
import {
  joinPath,
  parseJoinToken,
  splitHostPort,
  type JoinAnswer,
  type JoinRequest,
  type JoinTokenContent,
} from '../../shared/join-token.js'
import { OutboundClient, readText } from '../../shared/outbound-request.js'
import { writeIdentity, type AgentIdentity } from './identity.js'

const timeoutMs = 15_000
const timeouts = { connectMs: timeoutMs, headersMs: timeoutMs, bodyMs: timeoutMs }
const maxAnswerBytes = 64 * 1024
const joinName = identityDnsName({ role: 'join' })

/** Returns the token. If the argument is `-`, reads it from the stream: arguments are visible in process lists. */
export async function readJoinToken(argument: string, input: Readable): Promise<string> {
  return argument === '-' ? (await text(input)).trim() : argument
}

/**
 * Joins a gateway (`berth-agent join -`): creates a key, gets a certificate for it, and stores both together. An
 * existing identity is replaced only after the gateway has answered.
 * @param port port on which the agent listens; the gateway uses it if it knows no address of this host
 * @throws {BerthError} `join_token_invalid`, `gateway_untrusted`, `gateway_unreachable`, or the gateway's refusal
 */
export async function joinGateway(token: string, identityDir: string, port?: number): Promise<AgentIdentity> {
  const content = parseJoinToken(token)
  if (content.expiresAtMs <= Date.now())
    throw new BerthError('invalid', 'join_token_invalid', 'the join token has expired: create a new one')
  const caPem = await fetchAuthority(content)
  const { createCsrPem, createPrivateKeyPem } = await import('./csr.js')
  const privateKeyPem = createPrivateKeyPem()
  const csr = await createCsrPem(privateKeyPem)
  const request: JoinRequest = { token: token.trim(), csr, now_ms: Date.now(), ...(port !== undefined && { port }) }
  const answer = await sendRequest(content, caPem, JSON.stringify(request))
  if (answer.host_id !== content.hostId)
    throw new BerthError('internal', 'gateway_untrusted', 'the gateway returned the identity of another host')
  // The stored CA certificate is the one whose fingerprint was checked. The one from the answer is not used.
  return writeIdentity(identityDir, { privateKeyPem, certificatePem: answer.certificate, caPem })
}

/** Gets the gateway's CA certificate and compares it with the fingerprint in the token. Sends nothing secret. */
async function fetchAuthority(content: JoinTokenContent): Promise<string> {
  const socket = await openTls(content, { rejectUnauthorized: false })
  try {
    let shown: DetailedPeerCertificate | undefined = socket.getPeerCertificate(true)
    while (shown?.raw && shown.issuerCertificate && shown.issuerCertificate !== shown) shown = shown.issuerCertificate
    const digest = shown?.raw ? createHash('sha256').update(shown.raw).digest('hex') : ''
    if (!shown || digest !== content.caFingerprint)
      throw new BerthError(
        'forbidden',
        'gateway_untrusted',
        `${content.address} is not the gateway that created this token: it has another certificate authority`,
      )
    return new X509Certificate(shown.raw).toString()
  } finally {
    socket.destroy()
  }
}

function openTls(content: JoinTokenContent, options: ConnectionOptions): Promise<TLSSocket> {
  const { host, port } = splitHostPort(content.address)
  return new Promise((resolve, reject) => {
    const fail = (cause: unknown): void => {
      socket.destroy()
      reject(unreachable(content, cause))
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

/** Sends the request over TLS and checks the gateway's certificate: its chain to this CA, its role and its validity. */
async function sendRequest(content: JoinTokenContent, caPem: string, body: string): Promise<JoinAnswer> {
  const client = new OutboundClient({
    timeouts,
    tls: {
      ca: caPem,
      servername: joinName,
      minVersion: 'TLSv1.3',
      checkServerIdentity: checkJoinRole,
    },
  })
  try {
    const answer = await client.send(`https://${content.address}${joinPath}`, {
      method: 'POST',
      signal: AbortSignal.timeout(timeoutMs),
      headers: { 'content-type': 'application/json' },
      body,
    })
    return parseAnswer(answer.status, await readText(answer.body, maxAnswerBytes))
  } catch (cause) {
    throw unreachable(content, cause)
  } finally {
    client.close()
  }
}

function checkJoinRole(_name: string, certificate: PeerCertificate): Error | undefined {
  try {
    createPeerCheck({ identity: { role: 'join' } })(certificate)
    return undefined
  } catch (error) {
    return error as Error
  }
}

function parseAnswer(status: number, text: string): JoinAnswer {
  let answer: Partial<JoinAnswer> & { code?: string; message?: string }
  try {
    answer = JSON.parse(text) as typeof answer
  } catch (cause) {
    throw new BerthError('internal', 'gateway_untrusted', 'the answer of the gateway is not JSON', { cause })
  }
  const { host_id, certificate, ca } = answer
  if (status !== 200 || !host_id || !certificate || !ca)
    throw new BerthError(
      'forbidden',
      answer.code ?? 'join_refused',
      answer.message ?? `the gateway answered with HTTP status ${status}`,
    )
  return { host_id, certificate, ca }
}

function unreachable(content: JoinTokenContent, cause: unknown): BerthError {
  if (cause instanceof BerthError) return cause
  return new BerthError('unavailable', 'gateway_unreachable', `the gateway cannot be reached at ${content.address}`, {
    cause,
  })
}
