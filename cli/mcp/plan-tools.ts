import { compactOperations, type ApiDocument } from '../catalog/compact.js'
import { commandOf, type Argument, type Operation } from '../catalog/operation.js'
import { isReading, needsConfirmation } from './plan-danger.js'
import { fullSchema, type JsonSchema } from './plan-schema.js'

/* This module converts the operations of the API to tools for assistants. */

export interface Tool {
  readonly name: string
  readonly title: string
  readonly description: string
  readonly inputSchema: JsonSchema & { readonly type: 'object' }
  readonly annotations: {
    readonly readOnlyHint: boolean
    readonly destructiveHint: boolean
    readonly idempotentHint: boolean
    readonly openWorldHint: boolean
  }
  readonly operationId: string
  readonly operation: Operation
  /** Names of the arguments that belong to the query. */
  readonly queryFields: ReadonlySet<string>
  /** True if the API returns the result in pages. */
  readonly hasPages: boolean
}

export interface ToolSelection {
  /** Operations that the API key is allowed to use. */
  readonly allowed: ReadonlySet<string>
  /** Nouns, such as `guest`; undefined: all. */
  readonly nouns: ReadonlySet<string> | undefined
  readonly isReadOnly: boolean
}

/** Name of the argument that confirms a call. */
export const confirmField = 'confirm'

/** Returns the nouns of all operations of the gateway. */
export const nounsOf = (document: ApiDocument): string[] => [
  ...new Set(compactOperations(document).map(({ noun }) => noun)),
]

/** Returns the tools for the selected operations, in the order of their commands. */
export function planTools(document: ApiDocument, { allowed, nouns, isReadOnly }: ToolSelection): Tool[] {
  return compactOperations(document)
    .filter(({ answer, upload }) => !upload && (answer === 'envelope' || answer === 'picture'))
    .map((operation) => toolOf(operation, document))
    .filter(({ operationId }) => allowed.has(operationId))
    .filter(({ operation }) => nouns?.has(operation.noun) ?? true)
    .filter(({ annotations }) => !isReadOnly || annotations.readOnlyHint)
}

function toolOf(operation: Operation, document: ApiDocument): Tool {
  const { method, path, summary } = operation
  const documented = document.paths[path]![method.toLowerCase()]!
  const { operationId, parameters = [] } = documented
  const query = parameters.filter((parameter) => parameter.in === 'query')
  const isDangerous = needsConfirmation(method, operationId)
  return {
    name: commandOf(operation).replaceAll(/[ -]/g, '_'),
    title: commandOf(operation),
    description: isDangerous ? `${summary}. Ask the user before you call it.` : `${summary}.`,
    inputSchema: inputSchema(operation, document),
    annotations: {
      readOnlyHint: isReading(method, operationId),
      destructiveHint: isDangerous,
      idempotentHint: method !== 'POST' && method !== 'PATCH',
      openWorldHint: false,
    },
    operationId,
    operation,
    queryFields: new Set(query.map(({ name }) => name)),
    hasPages: query.some(({ name }) => name === 'page_size'),
  }
}

/** Returns one schema for the parameters of the path, the query and the fields of the body. */
function inputSchema(operation: Operation, document: ApiDocument): JsonSchema & { type: 'object' } {
  const { method, path } = operation
  const { operationId, parameters = [], requestBody } = document.paths[path]![method.toLowerCase()]!
  const body = fullSchema(requestBody?.content['application/json']?.schema ?? {}, document)
  const ofPath = operation.arguments.filter(({ place }) => place === 'path')
  const ofQuery = parameters.filter((parameter) => parameter.in === 'query')
  const properties = {
    ...Object.fromEntries(ofPath.map((argument) => [argument.label, pathSchema(argument)])),
    ...body.properties,
    ...Object.fromEntries(
      ofQuery.map(({ name, schema, description }) => [
        name,
        { ...fullSchema(schema, document), ...(description !== undefined && { description }) },
      ]),
    ),
    ...(needsConfirmation(method, operationId) && { [confirmField]: confirmSchema }),
  }
  const required = [
    ...ofPath.map(({ label }) => label),
    ...(body.required ?? []),
    ...ofQuery.filter((parameter) => parameter.required).map(({ name }) => name),
  ]
  return { type: 'object', properties, required, additionalProperties: false }
}

function pathSchema({ label, names }: Argument): JsonSchema {
  if (names === 'guest') return { type: 'string', description: 'Id, UUID or name of the guest.' }
  if (names === 'host') return { type: 'string', description: 'Id or name of the host.' }
  return { type: 'string', description: `Id of the ${label.replaceAll('-', ' ')}.` }
}

const confirmSchema: JsonSchema = {
  type: 'string',
  description:
    'Only if the user cannot be asked by this program: the name of the guest, or the text that the refusal of the call asks for.',
}
