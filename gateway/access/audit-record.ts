/** One audit entry as readers see it. */
export interface AuditRecord {
  /** ms since 1970. */
  readonly timeMs: number
  readonly action: string
  readonly target: string
  readonly detail: string
  readonly user: string
  readonly success: boolean
  readonly address: string
  readonly requestId: string
  /** "" where it was not about a container. */
  readonly containerUuid: string
}

type Fields = Readonly<Record<string, string>>

/** @param id of the stream entry: its time, a dash, a number */
export function parseStart(id: string, fields: Fields): AuditRecord {
  return {
    timeMs: Number(id.split('-')[0]),
    action: fields['action'] ?? '',
    target: fields['target'] ?? '',
    detail: 'outcome unknown',
    user: fields['user'] ?? '',
    success: false,
    address: fields['address'] ?? '',
    requestId: fields['request_id'] ?? '',
    containerUuid: '',
  }
}

/** What the outcome says better than the beginning did. */
export function parseOutcome(fields: Fields | undefined): Partial<AuditRecord> {
  if (!fields) return {}
  return {
    success: fields['success'] === '1',
    detail: fields['detail'] ?? '',
    containerUuid: fields['container'] ?? '',
    ...(fields['target'] ? { target: fields['target'] } : {}),
  }
}
