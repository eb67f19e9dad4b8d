import { usageError } from '../errors.js'
import { parseJson } from '../input/values.js'
import { filterJson, formatJson } from '../output/print.js'
import { openSession, outputOptions, type GlobalOptions } from '../session.js'
import type { Surroundings } from '../surroundings.js'

export interface RawRequest {
  readonly method: string
  /** Path below `/api/v1`, with its query. */
  readonly path: string
  readonly data: string | undefined
  /** ETag that the object must still have. */
  readonly ifMatch: string | undefined
  readonly options: GlobalOptions
  readonly surroundings: Surroundings
}

/** Sends a request as it is and prints the complete answer. */
export async function runRaw({ method, path, data, ifMatch, options, surroundings }: RawRequest): Promise<void> {
  if (!/^[a-z]+$/i.test(method)) throw usageError(`${method}: not a method such as GET or POST`)
  const text = data?.startsWith('@') ? surroundings.readFile(data.slice(1)) : data
  const body = text === undefined ? undefined : parseJson('--data', text)
  const { jq } = outputOptions(options, 'api', surroundings.width)
  const { client } = await openSession(surroundings, options)
  const content = body === undefined ? {} : { body }
  const request = { method: method.toUpperCase(), path: pathBelowApi(path), ifMatch, ...content }
  const { bytes } = await client.read(request)
  surroundings.writeOut(formatAnswer(bytes, jq))
}

/** Accepts paths with and without `/api/v1`. */
function pathBelowApi(path: string): string {
  return `/${path.replace(/^\/?(api\/(v1\/)?)?/, '')}`
}

/** Formats a JSON answer. Returns all other answers unchanged. */
function formatAnswer(bytes: Uint8Array, jq: string | undefined): string | Uint8Array {
  const value = parseAnswer(bytes)
  return value === undefined ? bytes : filterJson(formatJson(value), jq)
}

function parseAnswer(bytes: Uint8Array): unknown {
  try {
    return JSON.parse(new TextDecoder().decode(bytes))
  } catch {
    return undefined
  }
}
