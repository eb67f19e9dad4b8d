import { flagOf, type Schema } from './flags.js'
import { commandOf, type AnswerForm, type Argument, type Flag, type NamedKind, type Operation } from './operation.js'
import { exampleOf } from './examples.js'
import { collectionsOf, planName } from './plan-names.js'
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

function contentOf(entry: Entry, document: ApiDocument, commands: Commands): OperationContent {
  const { method, path, documented } = entry
  const content = documented.requestBody?.content['application/json']
  const body = resolved(content?.schema ?? {}, document)
  const [type = ''] = Object.keys(documented.requestBody?.content ?? {})
  const upload = type === 'application/json' ? '' : type
  const main = upload ? [archive] : mainField(entry, body)
  const flags = flagsOf(documented, body, document)
  return {
    method,
    path,
    summary: wordingOf(documented.summary, { commands, flags }),
    arguments: [...pathArguments(path), ...main],
    flags: flags
      .filter(({ field, place }) => place !== 'body' || !main.some((argument) => argument.field === field))
      .map((flag) => ({ ...flag, text: textOf(flag, { commands, flags }) })),
    hasBody: content !== undefined,
    ...(upload && { upload }),
    answer: answerOf(documented),
    exampleBody: content?.example,
  }
}

/** Returns the text of a flag. The text of `sort` names columns, which must not be replaced by names of flags. */
function textOf({ field, text }: Flag, context: WordingContext): string {
  return wordingOf(text, field === 'sort' ? { ...context, flags: [] } : context)
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
  const query = parameters
    .filter((parameter) => parameter.in === 'query')
    .map(({ name, required = false, description, schema }) =>
      flagOf(name, full({ ...schema, ...(description && { description }) }), { place: 'query', isRequired: required }),
    )
  const known = new Set(query.map(({ field }) => field))
  const required = new Set(body.required)
  const fields = Object.entries(body.properties ?? {})
    .filter(([field]) => !known.has(field))
    .map(([field, schema]) => flagOf(field, full(schema), { place: 'body', isRequired: required.has(field) }))
  return [...fields, ...query]
}

/** The argument of an operation whose body is a file. */
const archive: Argument = { label: 'file', place: 'file', field: '' }

const namedBy: Readonly<Record<string, NamedKind>> = { containers: 'guest', hosts: 'host' }

function pathArguments(path: string): Argument[] {
  return [...path.matchAll(/([^/]+)\/\{(\w+)\}/g)].map(([, segment = '', field = '']) => ({
    label: labelOf(segment),
    place: 'path',
    field,
    ...(namedBy[segment] && { names: namedBy[segment] }),
  }))
}

function labelOf(segment: string): string {
  const labels: Readonly<Record<string, string>> = {
    containers: 'guest',
    'port-mappings': 'index',
    'sub-users': 'customer',
    deliveries: 'delivery',
  }
  return labels[segment] ?? segment.replace(/s$/, '')
}

/** Returns an argument for the name of a new object if the request requires a name. */
function mainField({ method, path }: Entry, { required = [] }: Schema): Argument[] {
  const field = ['name', 'username'].find((name) => required.includes(name))
  return method === 'POST' && field !== undefined && !/login|custom/.test(path)
    ? [{ label: 'name', place: 'body', field }]
    : []
}

function answerOf({ responses }: DocumentedOperation): AnswerForm {
  const success = Object.entries(responses).find(([status]) => status.startsWith('2'))?.[1]
  const [type = ''] = Object.keys(success?.content ?? {})
  if (type.startsWith('image/')) return 'picture'
  if (type === 'text/event-stream') return 'events'
  if (type === 'application/octet-stream') return 'file'
  return type === 'application/x-ndjson' ? 'lines' : 'envelope'
}
