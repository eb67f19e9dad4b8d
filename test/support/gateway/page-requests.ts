import type { Reply, RequestOptions } from './test-gateway.js'

/**
 * Sends a request to a gateway in another process, with all cookies that the gateway sets, like a page of the panel.
 * @param baseUrl such as `http://127.0.0.1:8080`
 */
export async function pageRequest(
  baseUrl: string,
  [method, path]: readonly [method: string, path: string],
  { key = '', body, headers = {} }: RequestOptions = {},
): Promise<Reply> {
  const response = await fetch(`${baseUrl}/api/v1${path}`, {
    method,
    headers: {
      ...(key === '' ? {} : { 'x-api-key': key }),
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      ...headers,
    },
    ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
  })
  const text = await response.text()
  const isJson = response.headers.get('content-type')?.startsWith('application/json') === true
  const cookies = response.headers.getSetCookie() as unknown as string
  return {
    status: response.status,
    headers: { ...Object.fromEntries(response.headers), 'set-cookie': cookies },
    text,
    body: isJson ? JSON.parse(text) : {},
  }
}
