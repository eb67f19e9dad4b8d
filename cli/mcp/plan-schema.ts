import type { ApiDocument } from '../catalog/compact.js'
import type { Schema } from '../catalog/flags.js'

/** A JSON schema without references. */
export interface JsonSchema extends Schema {
  readonly properties?: Readonly<Record<string, JsonSchema>>
  readonly items?: JsonSchema
  readonly additionalProperties?: unknown
}

/** Replaces references to the schemas of the OpenAPI document by the schemas themselves. */
export const fullSchema = (schema: Schema, document: ApiDocument): JsonSchema => expand(schema, document) as JsonSchema

function expand(part: unknown, document: ApiDocument): unknown {
  if (Array.isArray(part)) return part.map((one) => expand(one, document))
  if (typeof part !== 'object' || part === null) return part
  const { $ref, ...own } = part as Schema
  const shared = $ref === undefined ? {} : expand(document.components.schemas[$ref.split('/').at(-1)!], document)
  const entries = Object.entries(own).map(([name, value]) => [name, expand(value, document)])
  return { ...(shared as object), ...Object.fromEntries(entries) }
}
