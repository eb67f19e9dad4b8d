import { expect } from 'chai'
import type { Guest } from '../../../proto/gen/berth/agent/v1/guest.js'
import { BerthError } from '../../../shared/errors.js'
import { startTestGateway, type TestGateway } from '../../support/gateway/test-gateway.js'

const rule = {
  direction: 'in',
  protocol: 'tcp',
  action: 'ACCEPT',
  network: 'ipv4',
  source_ip: '198.51.100.0/24',
  port: '22,80-90',
  description: 'office',
}

describe('the firewall of a container', () => {
  let gateway: TestGateway
  let guest: Guest
  before(async () => {
    gateway = await startTestGateway()
  })
  after(() => gateway.close())
  beforeEach(async () => {
    guest = await gateway.fleet.addGuest()
  })

  const path = () => `/containers/${guest.id}/firewall`
  const put = (body: object, headers = {}) => gateway.request('PUT', path(), { body, headers })
  const read = () => gateway.request('GET', path())
  const closed = (rules: object[]) => ({ enabled: true, default_action: 'DROP', rules })

  it('is off by default', async () =>
    expect((await read()).body.data).to.deep.equal({ enabled: false, default_action: 'ACCEPT', rules: [] }))

  it('is returned in its stored form, with generated ids for its rules', async () => {
    const { status, body } = await put(closed([rule, { ...rule, direction: 'out', protocol: 'all', port: '' }]))
    expect(status).to.equal(200)
    expect(body.message).to.be.a('string')
    const [first, second] = body.data.rules as { id: string }[]
    expect(first).to.deep.equal({ id: first?.id, ...rule })
    expect(new Set([first?.id, second?.id, '']).size).to.equal(3)
    expect((await read()).body.data).to.deep.equal(body.data)
  })

  it('keeps the ids of its rules, and replaces unknown ids', async () => {
    const [first] = (await put(closed([rule]))).body.data.rules as { id: string }[]
    const again = (
      await put(
        closed([
          { ...rule, id: 'mine' },
          { ...rule, id: first?.id },
        ]),
      )
    ).body.data.rules
    expect(again[1].id).to.equal(first?.id)
    expect(again[0].id).not.to.equal('mine')
  })

  it('is shown with normalized addresses and ports', async () => {
    const sent = {
      ...rule,
      network: undefined,
      source_ip: '10.1.2.3/8',
      port: ' 443, 80 ,80-81',
      description: undefined,
    }
    const { body } = await put({ enabled: false, default_action: 'ACCEPT', rules: [sent] })
    expect(body.data.rules[0]).to.include({
      network: 'all',
      source_ip: '10.0.0.0/8',
      port: '80-81,443',
      description: '',
    })
  })

  it('stays unchanged if a rule is invalid, and the error names the field', async () => {
    const before = (await put(closed([rule]))).body.data
    for (const [change, field] of [
      [{ port: '80;drop' }, 'rules.1.port'],
      [{ protocol: 'icmp' }, 'rules.1.port'],
      [{ source_ip: '::1' }, 'rules.1.source_ip'],
      [{ source_ip: '10.0.0.9-10.0.0.1' }, 'rules.1.source_ip'],
      [{ action: 'REJECT' }, 'rules.1.action'],
      [{ direction: undefined }, 'rules.1.direction'],
      [{ network: 'inet' }, 'rules.1.network'],
      [{ description: 'a\nb' }, 'rules.1.description'],
      [{ id: 5 }, 'rules.1.id'],
      [{ source_ip: '\n' }, 'rules.1.source_ip'],
      [{ port: '\t' }, 'rules.1.port'],
      [{ source: '10.0.0.1' }, 'rules.1.source'],
    ] as const) {
      const { status, body } = await put(closed([rule, { ...rule, ...change }]))
      expect([status, body.details?.field], JSON.stringify(change)).to.deep.equal([400, field])
    }
    for (const body of [{}, [], { enabled: true }, { ...closed([]), enabled: 'yes' }, closed(Array(201).fill(rule))])
      expect((await put(body)).status).to.equal(400)
    gateway.fleet.agentFailure = new BerthError('internal', 'agent_error', 'nft refused')
    expect((await put(closed([]))).status).to.equal(502)
    gateway.fleet.agentFailure = undefined
    expect((await read()).body.data).to.deep.equal(before)
  })

  it('can have 200 rules', async () =>
    expect((await put(closed(Array(200).fill(rule)))).body.data.rules).to.have.length(200))

  it('is replaced only if If-Match contains the present ETag of the firewall or the container', async () => {
    const tag = async (of: string) => (await gateway.request('GET', of)).headers['etag'] ?? ''
    for (const of of [path(), `/containers/${guest.name}`]) {
      const seen = await tag(of)
      expect((await put(closed([rule]), { 'if-match': seen })).status, of).to.equal(200)
      const late = await put(closed([]), { 'if-match': seen })
      expect([late.status, late.body.code], of).to.deep.equal([412, 'precondition_failed'])
    }
    expect((await read()).body.data.rules).to.have.length(1)
  })

  it('is not sent again (304) to a client that has the present ETag', async () => {
    const { headers } = await read()
    const again = () => gateway.request('GET', path(), { headers: { 'if-none-match': headers['etag'] ?? '' } })
    expect((await again()).status).to.equal(304)
    await put(closed([]))
    expect((await again()).status).to.equal(200)
  })
})
