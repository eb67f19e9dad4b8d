import { RefusedError, type BerthClient } from '../../client/index.js'
import type { ApiDocument } from '../catalog/compact.js'
import { CliError, exitCodes, usageError } from '../errors.js'
import { parseWord, splitWords } from '../input/values.js'
import { nounsOf, planTools } from '../mcp/plan-tools.js'
import { openSession, type GlobalOptions } from '../session.js'
import type { Surroundings } from '../surroundings.js'

export interface McpRun {
  /** Nouns of the offered tools, separated by commas; undefined: all. */
  readonly only: string | undefined
  readonly isReadOnly: boolean
  readonly options: GlobalOptions
  readonly surroundings: Surroundings
}

/** Offers an assistant the operations that the API key is allowed to use, over the standard input and output. */
export async function runMcp({ only, isReadOnly, options, surroundings }: McpRun): Promise<void> {
  const words = only === undefined ? undefined : splitWords('--only', only)
  const session = await openSession(surroundings, options)
  const { client } = session
  const [document, allowed] = await Promise.all([readDocument(client), readAllowed(client)])
  const nouns = words && chosenNouns(words, document)
  const tools = planTools(document, { allowed, nouns, isReadOnly })
  if (tools.length === 0)
    throw usageError('the API key may use none of these operations', 'check --only and the scopes')
  const { serveTools } = await import('../mcp/server.js')
  surroundings.endWithReader()
  await serveTools(tools, session)
}

/** @throws {CliError} `usage` for a noun that the gateway does not have */
function chosenNouns(words: readonly string[], document: ApiDocument): ReadonlySet<string> {
  const known = nounsOf(document)
  return new Set(words.map((word) => parseWord('--only', word, known)))
}

/** Reads the OpenAPI document of the gateway, because this program can have another version than the gateway. */
async function readDocument(client: BerthClient): Promise<ApiDocument> {
  return (await client.send({ method: 'GET', path: '/openapi.json' })).body as unknown as ApiDocument
}

/** @throws {CliError} `failed` if the gateway is too old */
async function readAllowed(client: BerthClient): Promise<ReadonlySet<string>> {
  try {
    const { data } = await client.get('/caller')
    return new Set(data.operations)
  } catch (cause) {
    if (!(cause instanceof RefusedError) || cause.code !== 'unsupported') throw cause
    throw new CliError(exitCodes.failed, 'the gateway is too old for berth mcp: upgrade it')
  }
}
