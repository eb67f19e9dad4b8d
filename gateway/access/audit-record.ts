/** An audit entry as readers see it. */
export interface AuditRecord {
  /** ms since 1970. */
  readonly timeMs: number
  readonly action: string
  readonly target: string
  readonly detail: string
  /** `api:` and the key's name, which need not be unique; or the name of who had logged in. */
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
}

/** It is not known, at least not yet, whether the action was carried out. */
export const outcomeUnknown = 'outcome unknown'

type Fields = Readonly<Record<string, string>>

/**
 * Joins what was written before an action and after it.
 * @param id of the stream entry: its time, a dash, a number
 * @param outcome absent while the action runs, and for ever if the gateway died meanwhile
 */
export function parseEntry(id: string, start: Fields, outcome: Fields | undefined): AuditRecord {
  const { success, detail = '', container: containerUuid = '' } = outcome ?? {}
  return {
    ...callerOf(start),
    containerUuid,
    timeMs: Number(id.slice(0, id.indexOf('-'))),
    target: outcome?.['target'] || (start['target'] ?? ''),
    detail: outcome ? detail : outcomeUnknown,
    success: success === '1',
  }
}

function callerOf(start: Fields) {
  const { action = '', user = '', by = '', address = '', request_id: requestId = '' } = start
  return { action, user, by, keyId: keyIdOf(by), address, requestId }
}

/** Key id in a reference like `Principal.ref`; 0: no key. */
function keyIdOf(by: string): number {
  return Number(/^key:(\d+)$/.exec(by)?.[1] ?? 0)
}
