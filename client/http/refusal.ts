import type { Refusal } from './errors.js'

interface ErrorBody {
  readonly message?: unknown
  readonly code?: unknown
  readonly request_id?: unknown
  readonly details?: { readonly field?: unknown; readonly task_id?: unknown }
}

/** Reads the error in an answer. The answer can come from a proxy, whose text has another form. */
export function parseRefusal(status: number, text: string): Refusal {
  const body = parseBody(text)
  const field = textOf(body.details?.field)
  const taskId = textOf(body.details?.task_id)
  const requestId = textOf(body.request_id)
  return {
    message: textOf(body.message) ?? 'the server refused the request',
    code: textOf(body.code) ?? `http_${status}`,
    ...(field && { field }),
    ...(taskId && { taskId }),
    ...(requestId && { requestId }),
  }
}

function parseBody(text: string): ErrorBody {
  try {
    return (JSON.parse(text) ?? {}) as ErrorBody
  } catch {
    return {}
  }
}

const textOf = (value: unknown): string | undefined => (typeof value === 'string' && value !== '' ? value : undefined)
