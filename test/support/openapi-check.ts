import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js'
import addFormats from 'ajv-formats'
import { expect } from 'chai'

interface Checked {
  readonly status: number
  readonly headers: Record<string, string>
  readonly text: string
  readonly body: unknown
}

interface Operation {
  responses: Record<string, { content?: Record<string, unknown> }>
}

/**
 * Checks responses against the published document: an undocumented status or a body outside its schema fails.
 * Paths outside the document pass.
 */
export function createResponseCheck(
  document: object,
): (method: string, path: string, response: Checked) => void {
  const ajv = addFormats.default(new Ajv2020({ strict: false, allErrors: true }))
  ajv.addSchema({ $id: 'oas', ...closeObjects(structuredClone(document)) })
  const paths = (document as { paths: Record<string, Record<string, Operation>> }).paths
  const templates = Object.keys(paths).map((template) => ({ template, pattern: patternOf(template) }))
  const compiled = new Map<string, ValidateFunction>()
  return (method, path, response) => {
    const plain = (path.split('?')[0] ?? '').replace(/^\/api(\/v1)?/, '').replace(/(.)\/$/, '$1')
    const matching = templates.filter(({ pattern }) => pattern.test(plain))
    const template = (matching.find(({ template }) => !template.includes('{')) ?? matching[0])?.template
    const operation = template && paths[template]?.[method.toLowerCase()]
    if (!operation) return
    const label = `${method} ${path}: ${response.status}`
    expect(Object.keys(operation.responses), label).to.include(String(response.status))
    if (response.status === 304) return void expect(response.text, label).to.equal('')
    const pointer = [template, method.toLowerCase(), 'responses', String(response.status)]
    const validate = compiled.get(pointer.join()) ?? ajv.compile({ $ref: refTo(pointer) })
    compiled.set(pointer.join(), validate)
    expect(validate(response.body), `${label}: ${JSON.stringify(validate.errors)} ${response.text}`).to.equal(
      true,
    )
  }
}

/** What is not described is not answered; requests may have more. */
function closeObjects<Schema extends object>(schema: Schema): Schema {
  for (const part of Object.values(schema))
    if (typeof part === 'object' && part !== null) closeObjects(part as object)
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
