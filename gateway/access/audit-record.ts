import { timeOf, type AuditFields, type StoredEntry } from './audit-index.js'

/** An audit entry as readers see it. */
export interface AuditRecord {
  /** ms since 1970. */
  readonly timeMs: number
  readonly action: string
  readonly target: string
  readonly detail: string
  /** `api:` and the key's name, which need not be unique; or the name of the logged-in user. */
  readonly user: string
  /** `Principal.ref`. */
  readonly by: string
  /** 0: unknown. */
  readonly keyId: number
  readonly success: boolean
  readonly address: string
  readonly requestId: string
  /** "" when the entry is not about a container. */
  readonly containerUuid: string
  /** Number of occurrences: similar failures of one caller share one entry for an hour. */
  readonly count: number
  /** Time of the last occurrence, ms since 1970. */
  readonly lastMs: number
}

/** The outcome is unknown, at least at present. */
export const outcomeUnknown = 'outcome unknown'

/** Joins the records written before and after an action. */
export function parseEntry({ id, start, outcome, repeats, repeatedAtMs }: StoredEntry): AuditRecord {
  const { success, detail = '', container: containerUuid = '' } = outcome ?? {}
  const timeMs = timeOf(id)
  return {
    ...callerOf(start),
    containerUuid,
    timeMs,
    count: 1 + repeats,
    lastMs: Math.max(timeMs, repeatedAtMs),
    target: outcome?.['target'] || (start['target'] ?? ''),
    detail: outcome ? detail : outcomeUnknown,
    success: success === '1',
  }
}

function callerOf(start: AuditFields) {
  const { action = '', user = '', by = '', address = '', request_id: requestId = '' } = start
  return { action, user, by, keyId: keyIdOf(by), address, requestId }
}

/** Key id in a reference like `Principal.ref`; 0: no key. */
function keyIdOf(by: string): number {
  return Number(/^key:(\d+)$/.exec(by)?.[1] ?? 0)
}
