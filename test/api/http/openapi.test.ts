import { Validator } from '@seriousme/openapi-schema-validator'
import { expect } from 'chai'
import { ruleOfPattern } from '../../../gateway/http/pattern-rules.js'
import { compileChecks } from '../../../gateway/http/validation.js'
import { BerthError } from '../../../shared/errors.js'
import { startTestGateway, type TestGateway } from '../../support/gateway/test-gateway.js'

describe('the OpenAPI document', () => {
  let gateway: TestGateway
  before(async () => {
    gateway = await startTestGateway()
  })
  after(() => gateway.close())

  it('has valid schemas for all routes (a gateway compiles them only at the first request)', () => {
    for (const route of gateway.api.routes)
      for (const check of Object.values(compileChecks(route)) as ((value: unknown) => unknown)[])
        try {
          check({})
        } catch (error) {
          expect(error, route.name).to.be.instanceOf(BerthError)
        }
  })

  it('is served without a key, under both path prefixes, with an ETag', async () => {
    const { status, body, headers } = await gateway.request('GET', '/openapi.json', { key: '' })
    expect([status, body.openapi]).to.deep.equal([200, '3.1.0'])
    expect(body).to.deep.equal(gateway.api.document)
    expect((await gateway.request('GET', '/api/openapi.json', { key: '' })).text).to.equal(JSON.stringify(body))
    const again = { key: '', headers: { 'if-none-match': headers['etag'] ?? '' } }
    expect((await gateway.request('GET', '/openapi.json', again)).status).to.equal(304)
  })

  it('is valid according to the OpenAPI specification', async () => {
    const { valid, errors } = await new Validator().validate(
      structuredClone(gateway.api.document) as Record<string, unknown>,
    )
    expect(valid, JSON.stringify(errors)).to.equal(true)
  })

  it('describes every route only once, with a unique operation id', () => {
    const { paths } = gateway.api.document as {
      paths: Record<string, Record<string, { operationId: string }>>
    }
    const operations = Object.values(paths).flatMap((methods) => Object.values(methods))
    expect(operations).to.have.length(gateway.api.routes.length)
    expect(new Set(operations.map((o) => o.operationId)).size).to.equal(operations.length)
  })

  it('describes in words every regular expression in the schema of a request', () => {
    const patterns = gateway.api.routes
      .flatMap(({ params, query, body }) => [params, query, body])
      .flatMap((schema) => JSON.stringify(schema ?? {}).match(/"pattern":"(?:[^"\\]|\\.)*"/g) ?? [])
      .map((found) => (JSON.parse(`{${found}}`) as { pattern: string }).pattern)
    expect(patterns).not.to.be.empty
    expect([...new Set(patterns)].filter((pattern) => ruleOfPattern(pattern) === undefined)).to.be.empty
  })

  it('lists 409 for reads only if they can conflict, and 412 only if the route accepts If-Match', () => {
    const { paths } = gateway.api.document as {
      paths: Record<string, Record<string, { responses: object; parameters: { name: string }[] }>>
    }
    const reads = Object.entries(paths).filter(([, { get }]) => get && '409' in get.responses)
    expect(reads.map(([path]) => path)).to.deep.equal([
      '/backup-targets/{id}/backups',
      '/containers/{id}/export',
      '/containers/{id}/random-port',
      '/containers/{id}/screenshot',
    ])
    for (const operation of Object.values(paths).flatMap((methods) => Object.values(methods))) {
      const takes = operation.parameters.some(({ name }) => name === 'If-Match')
      expect('412' in operation.responses).to.equal(takes)
    }
    for (const path of ['start', 'stop', 'restart'])
      expect(paths[`/containers/{id}/${path}`]?.['post']?.responses).to.have.property('412')
    expect(paths['/containers/{id}/delete']?.['delete']?.responses).to.have.property('412')
  })
})
