import { createHash } from 'node:crypto'
import type { SubjectRef } from './types.js'

/** Returns JSON with sorted keys, so that equal values give equal text. */
export function canonicalJson(value: unknown): string {
  return JSON.stringify(value, (_key, part: unknown) => (isObject(part) ? ordered(part) : part)) ?? 'null'
}

/** Returns the SHA-256 of a request, in hex. It shows whether a request with a known id is really a repetition. */
export function hashRequest(action: string, subject: SubjectRef, request: unknown): string {
  // Earlier versions hashed a guest's id as `guestUuid`. With another name, stored hashes would no longer match.
  const about = subject.kind === 'guest' ? { guestUuid: subject.id } : { [subject.kind]: subject.id }
  const text = canonicalJson({ action, ...about, request: request ?? null })
  return createHash('sha256').update(text).digest('hex')
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function ordered(value: Record<string, unknown>): Record<string, unknown> {
  const entries = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0))
  return Object.fromEntries(entries)
}
