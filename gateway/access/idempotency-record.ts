export interface IdempotencyRecord {
  readonly operationId: string
  /** HMAC of method, path, query and body. Its secret key protects guessable passwords in the body. */
  readonly fingerprint: string
  readonly attempt: number
  readonly state: 'running' | 'open' | 'done'
  /** Id of the gateway process that runs the request. */
  readonly owner: string
  /** The StoredAnswer, encrypted because it can contain a password or a key. */
  readonly answer?: string
}
