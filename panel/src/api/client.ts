import createClient from 'openapi-fetch'
import { online } from './online.svelte.ts'
import { ApiFailure, failureOf } from './failure.ts'
import type { paths } from '../../../client/schema.gen.ts'

/** Functions that the session provides for requests. The session sets them at the start. */
export interface CallerHooks {
  /** Returns the CSRF token for the header `X-Berth-CSRF`; empty before the login. */
  csrf(): string
  /**
   * Called when a request was refused because its session has ended. Resolves with true to repeat the request.
   * @param isRepeated true if the refused request was a repetition
   */
  loggedOut(isRepeated: boolean): Promise<boolean>
  /** Called when a request requires the password or a code. Resolves with true if the user has entered a valid one. */
  confirm(): Promise<boolean>
}

let hooks: CallerHooks = {
  csrf: () => '',
  loggedOut: () => Promise.resolve(false),
  confirm: () => Promise.resolve(false),
}

export function setCallerHooks(given: CallerHooks): void {
  hooks = given
}

/** Returns 32 hexadecimal digits. `crypto.randomUUID` exists only under TLS and on loopback. */
export function randomId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16))
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('')
}

/** Changes that the gateway has not answered yet. */
const unanswered = new Set<Promise<Response>>()

function fetchAnswer(request: Request): Promise<Response> {
  const answer = fetch(request)
  if (request.method === 'GET') return answer
  unanswered.add(answer)
  const forget = (): boolean => unanswered.delete(answer)
  void answer.then(forget, forget)
  return answer
}

/**
 * Waits until the gateway has answered all changes that were sent before. A change of the account replaces the session,
 * and the answer brings the cookie of the new session.
 */
export async function changesAnswered(): Promise<void> {
  await Promise.allSettled(unanswered)
}

/** The typed API client. It does not check whether a response is an error; `ask` does. */
export const api = createClient<paths>({ baseUrl: '/api/v1', fetch: fetchAnswer })
api.use({
  onRequest({ request }) {
    if (request.method === 'GET') return
    request.headers.set('X-Berth-CSRF', hooks.csrf())
    if (request.method === 'POST' && !request.headers.has('Idempotency-Key'))
      request.headers.set('Idempotency-Key', randomId())
  },
})

interface Outcome {
  readonly data?: unknown
  readonly error?: unknown
  readonly response: Response
}

type DataOf<O extends Outcome> = Exclude<O['data'], undefined>

/**
 * Sends a request and returns the envelope of the response. If the request needs a login or the password, asks the user
 * and then repeats the request.
 * @throws {ApiFailure}
 */
export async function send<O extends Outcome>(request: () => Promise<O>, isRepeated = false): Promise<DataOf<O>> {
  const outcome = await reach(request)
  if (outcome.response.ok || outcome.response.status === 304) return outcome.data as DataOf<O>
  const failure = failureOf(outcome.response, outcome.error)
  if (await mendable(failure, isRepeated)) return send(request, true)
  throw failure
}

/** Returns the `data` of a response. @throws {ApiFailure} */
export async function ask<O extends Outcome>(
  request: () => Promise<O>,
): Promise<DataOf<O> extends { data?: infer D } ? Exclude<D, undefined> : never> {
  const envelope = (await send(request)) as { data?: unknown }
  return envelope.data as never
}

/** Returns one page of a list and the total number of rows. @throws {ApiFailure} */
export async function askPage<O extends Outcome>(
  request: () => Promise<O>,
): Promise<{ rows: DataOf<O> extends { data?: infer D } ? Exclude<D, undefined> : never; total: number }> {
  let total = 0
  const rows = await ask(async () => {
    const outcome = await request()
    total = Number(outcome.response.headers.get('x-total-count') ?? '0')
    return outcome
  })
  return { rows, total }
}

async function reach<O>(request: () => Promise<O>): Promise<O> {
  try {
    const outcome = await request()
    online.reached()
    return outcome
  } catch (cause) {
    online.lost()
    throw new ApiFailure('network', String(cause))
  }
}

function mendable({ code }: ApiFailure, isRepeated: boolean): Promise<boolean> {
  if (code === 'unauthorized') return hooks.loggedOut(isRepeated)
  if (code === 'confirmation_required') return hooks.confirm()
  return Promise.resolve(false)
}

/**
 * Sends a request that the gateway proposed, such as a repair. Unlike `api`, it accepts every path.
 * @returns `data` of the response
 * @throws {ApiFailure}
 */
export async function askPlain<T>(method: string, path: string, body?: unknown, ifMatch = ''): Promise<T> {
  const envelope = await send(async () => {
    const response = await fetch(`/api/v1${path}`, {
      method,
      headers: {
        ...(method === 'GET' ? {} : { 'X-Berth-CSRF': hooks.csrf() }),
        ...(method === 'POST' ? { 'Idempotency-Key': randomId() } : {}),
        ...(body === undefined ? {} : { 'Content-Type': 'application/json' }),
        ...(ifMatch === '' ? {} : { 'If-Match': ifMatch }),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
    const answer: unknown = await response.json().catch(() => ({}))
    return response.ok ? { response, data: answer as { data?: T } } : { response, error: answer }
  })
  return envelope.data as T
}
