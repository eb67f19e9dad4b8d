import { timeOf, type AuditFields, type StoredEntry } from './audit-index.js'

/** An audit entry as returned to readers. */
export interface AuditRecord {
  /** Start of the action in ms since 1970. */
  readonly timeMs: number
  readonly action: string
  readonly target: string
  readonly detail: string
  /** Name of the logged-in user, or `api:` and the name of the key. Names of keys are not unique. */
  readonly user: string
  /** `ref` of the caller (`Principal.ref`). */
  readonly by: string
  /** Id of the calling API key. 0: the caller did not use a key. */
  readonly keyId: number
  readonly success: boolean
  readonly address: string
  readonly requestId: string
  /** Uuid of the affected container. "": the entry is not about a container. */
  readonly containerUuid: string
  /** Number of occurrences. Repetitions of a failure by one caller within an hour share one entry. */
  readonly count: number
  /** Time of the last occurrence, ms since 1970. */
  readonly lastMs: number
}

/** Detail of an audit entry whose outcome is not known, for example because the action still runs. */
export const outcomeUnknown = 'outcome unknown'

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

/** Returns the id of the API key that a `Principal.ref` names. 0: the caller did not use a key. */
function keyIdOf(by: string): number {
  return Number(/^key:(\d+)$/.exec(by)?.[1] ?? 0)
}
