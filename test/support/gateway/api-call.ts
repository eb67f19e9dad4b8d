import type { Body } from '../body.js'
import { responseCheckOf, type ResponseCheck } from './openapi-check.js'

export interface ApiReply {
  readonly status: number
  /** In lower case. */
  readonly headers: Readonly<Record<string, string>>
  readonly text: string
  /** The parsed body; `undefined` if it is not JSON. */
  readonly body: Body
}

const checks = new Map<string, ResponseCheck>()

/**
 * Checks an answer against the document that the same gateway publishes; does nothing while none is published.
 * @param baseUrl as `http://127.0.0.1:8080`
 * @param path including `/api/v1`
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
    return undefined // it was killed meanwhile
  }
}

/** Sends one request to a gateway and checks the answer. Every test without a client of its own uses it. */
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
