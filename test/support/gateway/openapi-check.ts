import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js'
import addFormats from 'ajv-formats'
import { expect } from 'chai'

export interface CheckedAnswer {
  readonly status: number
  /** Headers of the response, with names in lower case. */
  readonly headers: Readonly<Record<string, string | undefined>>
  readonly text: string
  readonly body: unknown
}

export type ResponseCheck = (method: string, path: string, response: CheckedAnswer) => void

interface Operation {
  responses: Record<string, DocumentedResponse>
}

interface DocumentedResponse {
  content?: Record<string, unknown>
  headers: Record<string, unknown>
  'x-codes'?: string[]
}

interface DocumentedHeader {
  required: boolean
  schema: { pattern?: string; enum?: string[] }
}

/** Headers that the document need not list. Any response may have them, and servers and proxies add some. */
const undocumented = [
  'content-type',
  'content-length',
  'cache-control',
  'x-content-type-options',
  'content-security-policy',
  'date',
  'connection',
  'keep-alive',
  'transfer-encoding',
]

/** Compiled checks, by the text of the document. All gateways of a process have one document and share its check. */
const checks = new Map<string, ResponseCheck>()

/**
 * Makes a check of responses against the published document. It fails for an undocumented status, code or header, for a
 * missing header and for a body that does not match its schema. Paths outside of the document pass.
 */
export function responseCheckOf(document: object): ResponseCheck {
  const text = JSON.stringify(document)
  const check = checks.get(text) ?? createResponseCheck(document)
  checks.set(text, check)
  return check
}

function createResponseCheck(document: object): ResponseCheck {
  const quickly = { validateSchema: false, code: { optimize: false } }
  const ajv = addFormats.default(new Ajv2020({ strict: false, allErrors: true, ...quickly }))
  ajv.addSchema({ $id: 'oas', ...closeObjects(structuredClone(document)) })
  const paths = (document as { paths: Record<string, Record<string, Operation>> }).paths
  const templates = Object.keys(paths).map((template) => ({ template, pattern: patternOf(template) }))
  const headers = (document as { components: { headers: Record<string, DocumentedHeader> } }).components.headers
  const compiled = new Map<string, ValidateFunction>()
  return (method, path, response) => {
    const plain = (path.split('?')[0] ?? '').replace(/^\/api(\/v1)?/, '').replace(/(.)\/$/, '$1')
    const matching = templates.filter(({ pattern }) => pattern.test(plain))
    const template = (matching.find(({ template }) => !template.includes('{')) ?? matching[0])?.template
    const operation = template && paths[template]?.[method.toLowerCase()]
    if (!operation) return
    const label = `${method} ${path}: ${response.status}`
    expect(Object.keys(operation.responses), label).to.include(String(response.status))
    const documented = operation.responses[String(response.status)]!
    checkHeaders(label, { names: Object.keys(documented.headers), headers }, response.headers)
    const { code } = (response.body ?? {}) as { code?: string }
    if (documented['x-codes']) expect(documented['x-codes'], label).to.include(code)
    if (response.status === 304) return void expect(response.text, label).to.equal('')
    if (isOtherType(documented, response)) return
    const pointer = [template, method.toLowerCase(), 'responses', String(response.status)]
    const validate = compiled.get(pointer.join()) ?? ajv.compile({ $ref: refTo(pointer) })
    compiled.set(pointer.join(), validate)
    expect(validate(response.body), `${label}: ${JSON.stringify(validate.errors)} ${response.text}`).to.equal(true)
  }
}

/** True if the document gives this response another content type than JSON. Checks that the response has that type. */
function isOtherType({ content }: DocumentedResponse, { headers }: CheckedAnswer): boolean {
  if (!content || 'application/json' in content) return false
  expect(Object.keys(content)).to.include(headers['content-type']?.split(';')[0])
  return true
}

function checkHeaders(
  label: string,
  { names, headers }: { names: readonly string[]; headers: Record<string, DocumentedHeader> },
  sent: CheckedAnswer['headers'],
): void {
  for (const name of names) {
    const { required, schema } = headers[name]!
    const value = sent[name.toLowerCase()]
    if (value === undefined) expect(required, `${label}: header ${name} is missing`).to.equal(false)
    else {
      expect(value, `${label}: header ${name}`).to.match(new RegExp(schema.pattern ?? ''))
      if (schema.enum) expect(schema.enum, `${label}: header ${name}`).to.include(value)
    }
  }
  const known = new Set([...undocumented, ...names.map((name) => name.toLowerCase())])
  const others = Object.keys(sent).filter((name) => !known.has(name))
  expect(others, `${label}: headers that are not documented`).to.deep.equal([])
}

/** Makes the schema of a response forbid undocumented fields. Schemas of requests permit further fields. */
function closeObjects<Schema extends object>(schema: Schema): Schema {
  for (const part of Object.values(schema)) if (typeof part === 'object' && part !== null) closeObjects(part as object)
  if ('properties' in schema && !('allOf' in schema) && !('additionalProperties' in schema))
    Object.assign(schema, { additionalProperties: false })
  return schema
}

function refTo(pointer: string[]): string {
  const steps = ['paths', ...pointer, 'content', 'application/json', 'schema']
  return `oas#/${steps.map((step) => encodeURIComponent(step.replaceAll('~', '~0').replaceAll('/', '~1'))).join('/')}`
}

function patternOf(template: string): RegExp {
  const escaped = template.replaceAll('.', '\\.').replaceAll(/\{\w+\}/g, '[^/]+')
  return new RegExp(`^${escaped}$`)
}
