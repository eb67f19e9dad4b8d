import { expect } from 'chai'
import type { Route } from '../../../gateway/http/route.js'
import { compileChecks } from '../../../gateway/http/validation.js'
import { BerthError } from '../../../shared/errors.js'
import type { Body } from '../../support/body.js'
import {
  bodyWith,
  emptyForms,
  fieldsOf,
  hostileForms,
  lenientForms,
  rightValue,
  type Field,
  type Schema,
} from '../../support/gateway/client-forms.js'
import { KeyCalls } from '../../support/gateway/key-calls.js'
import { startTestGateway, type TestGateway } from '../../support/gateway/test-gateway.js'

type Check = (body: Record<string, unknown>) => Record<string, unknown>

/** Tests every field of every request body with the forms that clients send for the type in its schema. */
describe('field values that differ from the schema in type or notation', () => {
  let gateway: TestGateway
  before(async () => {
    gateway = await startTestGateway()
  })
  after(() => gateway.close())

  const bodies = (): { route: Route; schema: Schema; check: Check }[] =>
    gateway.api.routes.flatMap((route) =>
      route.body ? [{ route, schema: route.body, check: compileChecks(route).body }] : [],
    )

  it('are tested in more than a dozen request bodies and a hundred fields', () => {
    expect(bodies()).to.have.length.greaterThan(12)
    expect(bodies().flatMap(({ schema }) => fieldsOf(schema))).to.have.length.greaterThan(100)
  })

  it('have the same effect as the value in the required form if their meaning is clear', () => {
    for (const { route, schema, check } of bodies())
      for (const field of fieldsOf(schema)) {
        const right = rightValue(field.schema)
        const meant = check(bodyWith(schema, field, right))
        for (const form of lenientForms(field.schema, right))
          expect(check(bodyWith(schema, field, form)), label(route, field, form)).to.deep.equal(meant)
      }
  })

  it('are ignored if they are empty, just like omitted fields', () => {
    for (const { route, schema, check } of bodies())
      for (const field of fieldsOf(schema)) {
        if (!field.optional || field.schema.restricts) continue
        const absent = check(bodyWith(schema, field, undefined))
        for (const form of emptyForms(field.schema))
          expect(check(bodyWith(schema, field, form)), label(route, field, form)).to.deep.equal(absent)
      }
  })

  it('are refused if they are ambiguous, and the error names the field', () => {
    for (const { route, schema, check } of bodies())
      for (const field of fieldsOf(schema))
        for (const form of hostileForms(field.schema)) {
          const error = errorOf(() => check(bodyWith(schema, field, form)))
          expect(`${error?.field}.`.startsWith(`${field.path.join('.')}.`), label(route, field, form)).to.equal(true)
          expect(error?.message).not.to.match(/must NOT|pattern|\^/)
        }
  })

  it('never lift a restriction if they are empty, because a change ignores them and a creation is refused', () => {
    let restricting = 0
    for (const { route, schema, check } of bodies())
      for (const field of fieldsOf(schema)) {
        if (!field.schema.restricts) continue
        restricting++
        for (const form of [null, ' ', ...(field.schema.type === 'array' ? ['', ',,,', {}, [''], [null]] : [])]) {
          const work = () => check(bodyWith(schema, field, form))
          if (route.method === 'POST')
            expect(errorOf(work)?.field, label(route, field, form)).to.equal(field.path.join('.'))
          else expect(work(), label(route, field, form)).to.deep.equal(check(bodyWith(schema, field, undefined)))
        }
      }
    // Keys have five restricting fields and sub-users seven, each in two routes, which makes 24. The other eleven are
    // firewall rules of containers and of four kinds of creations, two fields of the access policy, WebSSH origins, a
    // field of administrators, a host's public address, and the expiry of a key for the command line.
    expect(restricting).to.equal(35)
  })

  describe('in the restrictions of a key', () => {
    const uuid = '11111111-1111-4111-8111-111111111111'
    const bounds = {
      scopes: ['container:read', 'task:read'],
      ip_whitelist: '127.0.0.0/8',
      container_uuids: [uuid],
      expires_at: '2031-02-03 04:05:06',
      disabled: true,
    }
    const open: [keyof typeof bounds, unknown[]][] = [
      ['ip_whitelist', [null, ' ', ',,,', [], ['']]],
      ['scopes', [null, '', ',,,', {}, ['']]],
      ['container_uuids', [null, '', ',,,', {}, [''], [null]]],
      ['expires_at', [null, ' ']],
      ['disabled', [null, '', ' ']],
    ]

    it('change nothing if they are empty', async () => {
      const keys = new KeyCalls(gateway)
      const { id } = await keys.make(bounds)
      for (const [field, forms] of open)
        for (const form of forms) {
          const { status, body } = await gateway.request('PATCH', `/api-keys/${id}`, {
            body: { [field]: form },
          })
          expect([status, body.message], label(undefined, field, form)).to.deep.equal([200, 'nothing to change'])
        }
      expect(await keys.find(id)).to.deep.include(bounds)
    })

    it('prevent the creation of a key if one of them is empty', async () => {
      const count = async () => (await gateway.request('GET', '/api-keys')).body.data.length as number
      const before = await count()
      for (const [field, forms] of [...open, ['scopes', [[]]] as const])
        for (const form of forms) {
          const { status, body } = await gateway.request('POST', '/api-keys', {
            body: { name: 'open', ...bounds, [field]: form },
          })
          expect([status, body.details?.field], label(undefined, field, form)).to.deep.equal([400, field])
        }
      expect(await count()).to.equal(before)
    })

    it('are accepted as text or numbers', async () => {
      const keys = new KeyCalls(gateway)
      const { id } = await keys.make({
        scopes: 'container:read, task:read',
        ip_whitelist: ['127.0.0.0/8'],
        container_uuids: uuid,
        expires_at: '1927861506',
        disabled: '1',
      })
      expect(await keys.find(id)).to.deep.include({ ...bounds, expires_at: '2031-02-03 05:05:06' })
    })
  })

  describe('in the settings of a firewall', () => {
    const rule = { direction: 'in', protocol: 'tcp', action: 'DROP', port: '25' }
    const put = async (body: object): Promise<Body> => {
      const reply = await gateway.request('PUT', '/containers/walled/firewall', { body })
      expect(reply.status, reply.text).to.equal(200)
      return reply.body.data
    }

    it('leave the rules and the default action unchanged if they are empty or omitted', async () => {
      await gateway.fleet.addGuest({ name: 'walled' })
      const stored = await put({ enabled: true, default_action: 'DROP', rules: [rule] })
      for (const rules of [null, '', ',,,', {}, [''], [null], undefined])
        expect(await put({ enabled: 1, default_action: 'drop', rules }), JSON.stringify(rules)).to.deep.equal(stored)
      expect(await put({ enabled: false })).to.deep.equal({ ...stored, enabled: false })
      expect(await put({ enabled: '0', default_action: null, rules: null })).to.deep.equal({
        ...stored,
        enabled: false,
      })
      expect((await put({ enabled: true, default_action: 'DROP', rules: [] })).rules).to.deep.equal([])
    })

    it('are refused if they contain an empty rule among other rules', async () => {
      for (const bad of [null, {}, '']) {
        const body = { enabled: true, default_action: 'ACCEPT', rules: [rule, bad] }
        expect((await gateway.request('PUT', '/containers/walled/firewall', { body })).status).to.equal(400)
      }
    })

    it('can be in upper or lower case, can contain ports as numbers, and can have an empty network, which means “all”', async () => {
      const sent = { ...rule, direction: 'IN', protocol: 'Tcp', action: 'drop', port: 22, network: '' }
      const { rules } = await put({
        enabled: true,
        default_action: 'Accept',
        rules: [{ ...sent, id: null, source_ip: null }],
      })
      expect(rules[0]).to.deep.include({
        ...rule,
        port: '22',
        network: 'all',
        source_ip: '',
        description: '',
      })
    })
  })
})

function label(route: Route | undefined, field: Field | string, form: unknown): string {
  const name = typeof field === 'string' ? field : field.path.join('.')
  return `${route ? `${route.method} ${route.path} ` : ''}${name}: ${JSON.stringify(form)}`
}

function errorOf(work: () => unknown): BerthError | undefined {
  try {
    work()
    return undefined
  } catch (error) {
    if (error instanceof BerthError) return error
    throw error
  }
}
