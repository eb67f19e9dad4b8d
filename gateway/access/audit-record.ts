/** One audit entry as readers see it. */
export interface AuditRecord {
  /** ms since 1970. */
  readonly timeMs: number
  readonly action: string
  readonly target: string
  readonly detail: string
  /** `api:` and the name of the key, which others may have too. */
  readonly user: string
  /** 0: not known. */
  readonly keyId: number
  readonly success: boolean
  readonly address: string
  readonly requestId: string
  /** "" where it was not about a container. */
  readonly containerUuid: string
}

/** Nobody knows, or not yet, whether it was done. */
export const outcomeUnknown = 'outcome unknown'

type Fields = Readonly<Record<string, string>>

/**
 * An entry from what was written before the action and after it.
 * @param id of the stream entry: its time, a dash, a number
 * @param outcome absent while it runs, and for ever when the gateway died meanwhile
 */
export function parseEntry(id: string, start: Fields, outcome: Fields | undefined): AuditRecord {
  const { action = '', user = '', address = '', request_id: requestId = '' } = start
  const { success, detail = '', container: containerUuid = '' } = outcome ?? {}
  return {
    ...{ action, user, address, requestId, containerUuid },
    keyId: keyIdOf(start),
    timeMs: Number(id.slice(0, id.indexOf('-'))),
    target: outcome?.['target'] || (start['target'] ?? ''),
    detail: outcome ? detail : outcomeUnknown,
    success: success === '1',
  }
}

/** Of a reference as `Principal` has it; 0: no key. */
function keyIdOf({ by = '' }: Fields): number {
  return Number(/^key:(\d+)$/.exec(by)?.[1] ?? 0)
}
