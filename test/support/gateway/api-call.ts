import type { Body } from '../body.js'
import { responseCheckOf, type ResponseCheck } from './openapi-check.js'

export interface ApiReply {
  readonly status: number
  /** Headers of the response, with names in lower case. */
  readonly headers: Readonly<Record<string, string>>
  readonly text: string
  /** The body as parsed JSON; `undefined` if it is not JSON. */
  readonly body: Body
}

const checks = new Map<string, ResponseCheck>()

/**
 * Checks a response against the OpenAPI document of its gateway, if the gateway publishes one.
 * @param baseUrl such as `http://127.0.0.1:8080`
 * @param path the method and the path, which includes `/api/v1`
 */
export async function checkAnswer(
  baseUrl: string,
  [method, path]: readonly [method: string, path: string],
  reply: ApiReply,
): Promise<void> {
  const check = checks.get(baseUrl) ?? (await readCheck(baseUrl))
  if (check === undefined) return
  checks.set(baseUrl, check)
  check(method, path, reply)
}

async function readCheck(baseUrl: string): Promise<ResponseCheck | undefined> {
  try {
    const response = await fetch(`${baseUrl}/api/v1/openapi.json`, { headers: { connection: 'close' } })
    return responseCheckOf((await response.json()) as object)
  } catch {
    return undefined // the gateway was killed in the meantime
  }
}

/** Sends one request to a gateway and checks the response. All tests without a client of their own use it. */
export async function apiCall(
  baseUrl: string,
  [method, path]: readonly [method: string, path: string],
  options: { readonly headers?: Record<string, string>; readonly body?: string } = {},
): Promise<ApiReply> {
  const response = await fetch(baseUrl + path, { method, ...options })
  const text = await response.text()
  const reply = {
    status: response.status,
    headers: Object.fromEntries(response.headers),
    text,
    body: parse(text),
  }
  await checkAnswer(baseUrl, [method, path], reply)
  return reply
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
