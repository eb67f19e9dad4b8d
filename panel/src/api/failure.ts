/** The failure of a request that was refused or got no response. */
export class ApiFailure extends Error {
  override readonly name = 'ApiFailure'

  constructor(
    /** The stable code of the error; `network` if there was no response. */
    readonly code: string,
    message: string,
    readonly about: {
      readonly status?: number
      readonly field?: string
      /** Name of the violated rule, and its limits. */
      readonly rule?: string
      readonly values?: Readonly<Record<string, string | number>>
      readonly requestId?: string
      readonly retryAfterSeconds?: number
    } = {},
  ) {
    super(message)
  }
}

interface Envelope {
  readonly code?: string
  readonly message?: string
  readonly request_id?: string
  readonly details?: {
    readonly field?: string
    readonly rule?: string
    readonly values?: Readonly<Record<string, string | number>>
  }
}

/** Converts a response with a status other than 2xx to a failure. */
export function failureOf(response: Response, body: unknown): ApiFailure {
  const { code, message, request_id, details } = (typeof body === 'object' ? body : {}) as Envelope
  const retryAfter = Number(response.headers.get('retry-after') ?? '0')
  return new ApiFailure(code ?? 'internal_error', message ?? response.statusText, {
    status: response.status,
    requestId: request_id ?? response.headers.get('x-request-id') ?? '',
    ...details,
    ...(retryAfter > 0 && { retryAfterSeconds: retryAfter }),
  })
}

/** Returns the failure for any value that a request threw. */
export function asFailure(thrown: unknown): ApiFailure {
  return thrown instanceof ApiFailure ? thrown : new ApiFailure('network', String(thrown))
}
