import type { IncomingHttpHeaders } from 'node:http'

/* What clients of the field do to targets and headers, undone before anything reads them. */

/** `//api/v1` comes from a base address that ends in a slash; the query, and a target with a scheme, stay. */
export function collapseSlashes(target: string): string {
  if (!target.startsWith('/') || !target.includes('//')) return target
  const query = target.indexOf('?')
  const path = query < 0 ? target : target.slice(0, query)
  return path.replaceAll(/\/{2,}/g, '/') + (query < 0 ? '' : target.slice(query))
}

const single = ['x-api-key', 'authorization', 'idempotency-key', 'if-match'] as const

/** Of these an empty one counts as none, and the same value twice, which Node joins, as once. */
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
