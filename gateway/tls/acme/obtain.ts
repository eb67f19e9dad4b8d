import { setTimeout as delay } from 'node:timers/promises'
import { isIP } from 'node:net'
import { BerthError } from '../../../shared/errors.js'
import { parseChain, type KeyedChain } from '../certificate.js'
import { createRequest } from '../keys.js'
import { acmeRefused, acmeUnavailable, type Problem } from './errors.js'
import type { AccountKey } from './jws.js'
import { toAcmeError, type AcmeReply, type AcmeServer, type Signer } from './server.js'

/** Methods of proving control of a name to the authority (RFC 8555, 8.3; RFC 8737). */
export type ChallengeMethod = 'http-01' | 'tls-alpn-01'

export interface Challenge {
  readonly method: ChallengeMethod
  /** Name or address that the authority validates. */
  readonly target: string
  readonly token: string
  readonly keyAuthorization: string
}

export interface AcmeOrder {
  readonly target: string
  /** Address to which the authority sends mail. "": no address was given. */
  readonly email: string
  readonly account: AccountKey
  /** Methods to try, in this order. */
  readonly methods: readonly ChallengeMethod[]
  /** Makes the answer to a challenge available. If this throws, the method cannot be used. */
  present(challenge: Challenge): Promise<void>
}

interface Resource {
  readonly status: string
  readonly error?: Problem
}

interface OrderResource extends Resource {
  readonly authorizations: readonly string[]
  readonly finalize: string
  readonly certificate?: string
}

interface ChallengeResource extends Resource {
  readonly type: string
  readonly url: string
  readonly token: string
}

interface Authorization extends Resource {
  readonly challenges: readonly ChallengeResource[]
}

/**
 * Obtains a certificate for a name or address (RFC 8555, 7). Tries the methods in order until one succeeds. The caller
 * must have agreed to the terms of the authority.
 * @throws {BerthError} one of `acmeCodes`, or the error of `present` if no method could be tried
 */
export async function obtainCertificate(server: AcmeServer, order: AcmeOrder): Promise<KeyedChain> {
  const signer = await register(server, order)
  let refused: BerthError | undefined
  for (const method of order.methods) {
    try {
      return await obtainBy(method, { server, signer, order })
    } catch (error) {
      if (!isOfMethod(error)) throw error
      refused ??= error
    }
  }
  throw refused ?? acmeUnavailable('it offers no challenge that this gateway supports')
}

/** True if the error concerns only this challenge method, so that another method can succeed. */
function isOfMethod(error: unknown): error is BerthError {
  return error instanceof BerthError && error.kind === 'conflict'
}

interface Attempt {
  readonly server: AcmeServer
  readonly signer: Signer
  readonly order: AcmeOrder
}

/** Creates an account for the key. If the key already has an account, the answer names it (RFC 8555, 7.3). */
async function register(server: AcmeServer, { account, email }: AcmeOrder): Promise<Signer> {
  const { newAccount } = await server.directory()
  const contact = email === '' ? {} : { contact: [`mailto:${email}`] }
  const payload = { termsOfServiceAgreed: true, ...contact }
  const { location } = await server.post(newAccount, payload, { key: account })
  if (location === '') throw acmeUnavailable('its answer contains no account URL')
  return { key: account, accountUrl: location }
}

async function obtainBy(method: ChallengeMethod, attempt: Attempt): Promise<KeyedChain> {
  const { server, signer, order } = attempt
  const { newOrder, meta } = await server.directory()
  const made = await server.post<OrderResource>(newOrder, orderFor(order.target, meta?.profiles), signer)
  for (const url of made.body.authorizations) await authorize(url, method, attempt)
  const { keyPem, csr } = await createRequest(order.target)
  await poll(attempt, made.location, ({ status }) => status !== 'pending')
  await server.post(made.body.finalize, { csr }, signer)
  const done = await poll<OrderResource>(attempt, made.location, ({ status }) => status === 'valid')
  const { body } = await server.post<unknown>(done.certificate ?? '', undefined, signer)
  return { chainPem: readChain(body), keyPem }
}

/** Extracts the certificates from a body. @throws {BerthError} `acme_unavailable` */
function readChain(body: unknown): string {
  const pem = typeof body === 'string' ? parseChain(body).map(String).join('') : ''
  if (pem === '') throw acmeUnavailable('it sent no certificate')
  return pem
}

/** Body of an order. For IP addresses, some authorities have a separate profile with a lifetime of a few days. */
function orderFor(target: string, profiles: Readonly<Record<string, unknown>> = {}): object {
  const isAddress = isIP(target) !== 0
  const profile = isAddress && Object.hasOwn(profiles, 'shortlived') ? { profile: 'shortlived' } : {}
  return { identifiers: [{ type: isAddress ? 'ip' : 'dns', value: target }], ...profile }
}

async function authorize(url: string, method: ChallengeMethod, attempt: Attempt): Promise<void> {
  const { server, signer, order } = attempt
  const { body } = await server.post<Authorization>(url, undefined, signer)
  if (body.status === 'valid') return
  const challenge = body.challenges.find(({ type }) => type === method)
  if (challenge === undefined) throw acmeRefused({ type: 'unsupported', detail: `it does not offer ${method}` })
  const { token } = challenge
  const keyAuthorization = `${token}.${signer.key.thumbprint}`
  await order.present({ method, target: order.target, token, keyAuthorization })
  await server.post(challenge.url, {}, signer)
  await poll<Authorization>(attempt, url, ({ status }) => status === 'valid')
}

const [firstPauseMs, lastPauseMs] = [250, 5000]

/** Reads a resource until it has the desired state. @throws {BerthError} `acme_refused` if its state becomes invalid */
async function poll<Body extends Resource>(
  { server, signer }: Attempt,
  url: string,
  isReached: (body: Body) => boolean,
): Promise<Body> {
  for (let pauseMs = firstPauseMs; ; pauseMs = Math.min(pauseMs * 2, lastPauseMs)) {
    const reply: AcmeReply<Body> = await server.post<Body>(url, undefined, signer)
    if (reply.body.status === 'invalid') throw acmeRefused(problemOf(reply.body))
    if (isReached(reply.body)) return reply.body
    const wantedMs = (reply.retryAfterSeconds ?? 0) * 1000
    const waitMs = Math.min(Math.max(pauseMs, wantedMs), lastPauseMs)
    await delay(waitMs, undefined, { signal: server.signal }).catch((cause: unknown) => {
      throw toAcmeError(cause, server.signal)
    })
  }
}

/** Returns why an order or authorization failed. An authorization states the reason in its failed challenge. */
function problemOf(body: Resource & { readonly challenges?: readonly Resource[] }): Problem | undefined {
  return body.error ?? body.challenges?.find(({ error }) => error !== undefined)?.error
}
