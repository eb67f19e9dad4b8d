import { archive, mainField, pathArguments } from './arguments.js'
import { exampleOf, exampleValue } from './examples.js'
import { flagText } from './flag-texts.js'
import { flagOf, type Schema } from './flags.js'
import { globalFlagsOf } from './global-flags.js'
import { hostText } from './host-commands.js'
import { keysOf } from './object-keys.js'
import { commandOf, type AnswerForm, type Argument, type Flag, type Operation } from './operation.js'
import { collectionsOf, planName } from './plan-names.js'
import { summaryOf } from './summaries.js'
import { wordingOf, type WordingContext } from './wording.js'

/* This module converts the OpenAPI document to the operations that the program needs. */

interface Parameter {
  readonly name: string
  readonly in: string
  readonly required?: boolean
  readonly description?: string
  readonly schema: Schema
}

interface Content {
  readonly schema?: Schema
  readonly example?: unknown
}

interface DocumentedOperation {
  readonly operationId: string
  readonly summary: string
  readonly parameters?: readonly Parameter[]
  readonly requestBody?: { readonly content: Readonly<Record<string, Content>> }
  readonly responses: Readonly<Record<string, { readonly content?: Readonly<Record<string, Content>> }>>
}

export interface ApiDocument {
  readonly paths: Readonly<Record<string, Readonly<Record<string, DocumentedOperation>>>>
  readonly components: { readonly schemas: Readonly<Record<string, Schema>> }
}

interface Entry {
  readonly method: string
  readonly path: string
  readonly documented: DocumentedOperation
}

/** Returns all operations, sorted by noun. */
export function compactOperations(document: ApiDocument): Operation[] {
  const entries = entriesOf(document)
  const collections = collectionsOf(entries.map(({ path }) => path))
  const names = entries.map(({ method, path, documented: { operationId } }) =>
    planName({ method, path, operationId }, collections),
  )
  const commands = new Map(entries.map(({ method, path }, index) => [`${method} ${path}`, commandOf(names[index]!)]))
  return entries
    .map((entry, index) => ({ ...names[index]!, ...contentOf(entry, document, commands) }))
    .sort((a, b) => (a.noun < b.noun ? -1 : Number(a.noun > b.noun)))
    .map((operation) => ({ ...operation, example: exampleOf(operation) }))
}

function entriesOf({ paths }: ApiDocument): Entry[] {
  return Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, documented]) => ({ method: method.toUpperCase(), path, documented })),
  )
}

type Commands = ReadonlyMap<string, string>
type OperationContent = Omit<Operation, 'noun' | 'verb' | 'example'> & { readonly exampleBody: unknown }

/** Operations that do the same as another one, for older clients. */
const hidden = ['listContainerSummariesByPost', 'replaceLanguage']

function contentOf(entry: Entry, document: ApiDocument, commands: Commands): OperationContent {
  const { method, path, documented } = entry
  const content = documented.requestBody?.content['application/json']
  const body = resolved(content?.schema ?? {}, document)
  const [type = ''] = Object.keys(documented.requestBody?.content ?? {})
  const upload = type === 'application/json' ? '' : type
  const main = upload ? [archive] : mainField(method, path, body)
  const flags = flagsOf(documented, body, document)
  const context = { commands, flags }
  const answer = answerOf(documented)
  const command = commands.get(`${method} ${path}`)!
  return {
    method,
    path,
    summary: summaryOf(documented.operationId, wordingOf(documented.summary, context)),
    arguments: [...pathArguments(path), ...main].map((argument) => withWording(argument, context)),
    flags: flags
      .filter(({ field, place }) => place !== 'body' || !main.some((argument) => argument.field === field))
      .map((flag) => ({
        ...flag,
        text: hostText(command, flagText(flag, context)),
        ...objectParts(flag, content?.example, context),
      })),
    hasBody: content !== undefined,
    ...(upload && { upload }),
    answer,
    globalFlags: globalFlagsOf(answer, ...answerParts(documented, document)),
    ...(hidden.includes(documented.operationId) && { isHidden: true }),
    exampleBody: content?.example,
  }
}

const withWording = (argument: Argument, context: WordingContext): Argument =>
  argument.text === undefined ? argument : { ...argument, text: wordingOf(argument.text, context) }

/**
 * Returns the keys and the example of a flag whose value is an object. Field names in the texts of keys are not
 * converted to flags, because they can be other keys.
 */
function objectParts(flag: Flag, body: unknown, context: WordingContext): Pick<Flag, 'keys' | 'example'> {
  if (flag.keys === undefined) return {}
  const keys = flag.keys.map((key) => ({ ...key, text: wordingOf(key.text, { ...context, flags: [] }) }))
  return { keys, example: exampleValue(flag, body) }
}

function resolved(schema: Schema, document: ApiDocument): Schema {
  if (schema.$ref === undefined) return schema
  const found = document.components.schemas[schema.$ref.split('/').at(-1)!]
  if (found === undefined) throw new Error(`the OpenAPI document has no schema ${schema.$ref}`)
  return { ...resolved(found, document), ...(schema.description && { description: schema.description }) }
}

/** Returns the flags of an operation. A field of the body has no flag if the query has a parameter of the same name. */
function flagsOf({ parameters = [] }: DocumentedOperation, body: Schema, document: ApiDocument): Flag[] {
  const full = (schema: Schema): Schema => {
    const own = resolved(schema, document)
    return own.items ? { ...own, items: resolved(own.items, document) } : own
  }
  const withKeys = (flag: Flag, schema: Schema): Flag =>
    flag.type === 'object' ? { ...flag, keys: keysOf(schema.items ?? schema, (one) => resolved(one, document)) } : flag
  const query = parameters
    .filter((parameter) => parameter.in === 'query')
    .map(({ name, required = false, description, schema }) =>
      flagOf(name, full({ ...schema, ...(description && { description }) }), { place: 'query', isRequired: required }),
    )
  const known = new Set(query.map(({ field }) => field))
  const required = new Set(body.required)
  const fields = Object.entries(body.properties ?? {})
    .filter(([field]) => !known.has(field))
    .map(([field, schema]) => [field, full(schema)] as const)
    .map(([field, schema]) =>
      withKeys(flagOf(field, schema, { place: 'body', isRequired: required.has(field) }), schema),
    )
  return [...fields, ...query]
}

function answerOf({ responses }: DocumentedOperation): AnswerForm {
  const success = Object.entries(responses).find(([status]) => status.startsWith('2'))?.[1]
  const [type = ''] = Object.keys(success?.content ?? {})
  if (type.startsWith('image/')) return 'picture'
  if (type === 'text/event-stream') return 'events'
  if (type === 'application/octet-stream') return 'file'
  return type === 'application/x-ndjson' ? 'lines' : 'envelope'
}

/** Returns the schema of the envelope of a successful answer, and the properties of the answer for `globalFlagsOf`. */
function answerParts(
  { responses }: DocumentedOperation,
  document: ApiDocument,
): [Schema, { readonly resolve: (schema: Schema) => Schema; readonly isAccepted: boolean }] {
  const successes = Object.entries(responses).filter(([status]) => status.startsWith('2'))
  const resolve = (schema: Schema): Schema => resolved(schema, document)
  const answer = successes.at(-1)?.[1].content?.['application/json']?.schema ?? {}
  return [resolve(answer), { resolve, isAccepted: '202' in responses }]
}
