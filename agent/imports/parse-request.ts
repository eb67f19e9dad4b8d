import { Type } from 'typebox'
import { Value } from 'typebox/value'
import { invalidField } from '../../shared/errors.js'
import { sourceKinds, type ImportRequest } from './contract.js'

const path = Type.Optional(Type.String({ minLength: 1, maxLength: 4096, pattern: '^/[^\\0]*$' }))

const schema = Type.Object(
  {
    kind: Type.Union(sourceKinds.map((kind) => Type.Literal(kind))),
    container: Type.String({ minLength: 1, maxLength: 4096, pattern: '^[^\\0]*$' }),
    name: Type.Optional(Type.String({ maxLength: 200 })),
    vcpu: Type.Optional(Type.Number()),
    ramMb: Type.Optional(Type.Integer()),
    diskGb: Type.Optional(Type.Integer()),
    rootfs: path,
    configFile: path,
    start: Type.Optional(Type.Boolean()),
  },
  { additionalProperties: false },
)

/** Parses the body of a request for an import. @throws {BerthError} `invalid_field` */
export function parseImportRequest(text: string): ImportRequest {
  const value = parseJson(text)
  if (Value.Check(schema, value)) return value
  const [first] = Value.Errors(schema, value)
  const field = first?.instancePath.replace(/^\//, '') || 'request'
  throw invalidField(field, `${field}: has an invalid value`)
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    throw invalidField('request', 'request: must be JSON')
  }
}
