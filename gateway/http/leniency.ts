import type { IncomingHttpHeaders } from 'node:http'

/* Corrects common mistakes of clients in request targets and headers. */

/** Corrects `//api/v1`, the result of a base URL with a trailing slash. Queries and absolute URLs stay unchanged. */
export function collapseSlashes(target: string): string {
  if (!target.startsWith('/') || !target.includes('//')) return target
  const query = target.indexOf('?')
  const path = query < 0 ? target : target.slice(0, query)
  return path.replaceAll(/\/{2,}/g, '/') + (query < 0 ? '' : target.slice(query))
}

const single = ['x-api-key', 'authorization', 'idempotency-key', 'if-match'] as const

/** Removes headers without a value. A header that was sent several times with the same value is kept once. */
export function tidyHeaders(headers: IncomingHttpHeaders): void {
  for (const name of single) {
    const value = headers[name]
    if (value === undefined) continue
    const meant = meaningOf(String(value))
    if (meant === '') Reflect.deleteProperty(headers, name)
    else headers[name] = meant
  }
}

function meaningOf(value: string): string {
  const text = /^bearer\s*$/i.test(value) ? '' : value.trim()
  if (!text.includes(',')) return text
  const [first = '', ...others] = text.split(',').map((part) => part.trim())
  return first !== '' && others.every((part) => part === first) ? first : text
}
