/** The URL of a gateway, and an API key. */
export interface Connection {
  /** The address without a slash at its end, such as `https://panel.example.com`. */
  readonly url: string
  readonly key: string
  /** Certificates in PEM that are trusted in place of the system's certificates. */
  readonly ca?: string
}

export interface RequestOptions {
  /** ETag that the object must still have. The gateway answers 412 if the object was changed in the meantime. */
  readonly ifMatch?: string | undefined
  /** Idempotency key: a request with the same key takes effect only once. Default: a random key. */
  readonly idempotencyKey?: string
  /** Aborting this signal ends the request. */
  readonly signal?: AbortSignal
}

export type QueryValue = string | number | boolean | undefined

/** A body that is sent while it is read. */
export interface Upload {
  readonly type: string
  /** Length in bytes. Undefined: not known. */
  readonly bytes?: number
  readonly parts: AsyncIterable<Uint8Array>
}

export interface ClientRequest extends RequestOptions {
  readonly method: string
  /** Path below `/api/v1`, with its parameters encoded. */
  readonly path: string
  readonly query?: Readonly<Record<string, QueryValue>>
  readonly body?: unknown
  /** Body of any length in place of `body`. A request with it is never repeated. */
  readonly upload?: Upload
}

/** An answer whose body was not read yet. */
export interface OpenAnswer {
  readonly status: number
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  /** The body. Throws `UnreachableError` if the connection ends before the body is complete. */
  readonly parts: AsyncIterable<Uint8Array>
  close(): void
}
