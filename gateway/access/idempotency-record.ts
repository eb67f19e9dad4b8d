export interface IdempotencyRecord {
  readonly operationId: string
  /** Digest, with a secret key, of method, path, query and body. A body can contain a guessable password. */
  readonly fingerprint: string
  readonly attempt: number
  readonly state: 'running' | 'open' | 'done'
  /** Id of the gateway process that runs the request. */
  readonly owner: string
  /** The StoredAnswer, encrypted because it can contain a password or a key. */
  readonly answer?: string
}
