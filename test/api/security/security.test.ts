import { expect } from 'chai'
import type { Body } from '../../support/body.js'
import type { LabAgent } from '../../support/memory/lab-agent.js'
import { SecurityLab, target } from '../../support/gateway/security-lab.js'
import type { TestGateway } from '../../support/gateway/test-gateway.js'

describe('the security API', () => {
  const lab = new SecurityLab()
  const { call, read, alerts, newest, check } = lab
  let gateway: TestGateway
  let agent: LabAgent
  let guest: SecurityLab['guest']
  let other: SecurityLab['other']
  let address: string
  before(async () => {
    await lab.start()
    ;({ gateway, agent, guest, other, address } = lab)
  })
  after(() => lab.close())
  beforeEach(() => (lab.clockMs += 3_600_000))

  it('shows no alerts at first', async () => {
    expect(await alerts()).to.deep.equal([])
    const { data } = (await call('GET', '/security/summary')).body
    expect(data).to.include({
      host_id: '',
      total: 0,
      active: 0,
      containers: 0,
      blocked: 0,
      last_alert_at: '',
    })
    expect(await read('/security/settings')).to.deep.equal({ host_id: 'host-a', auto_shutdown: false })
  })

  it('shows an alert when a check finds abuse, and increases the count of this alert in the next check', async () => {
    agent.host.sensor.scanPorts(address, target, 20)
    const { status, body } = await check()
    expect([status, body.message]).to.deep.equal([200, '2 containers checked, 1 findings'])
    const [row, ...rest] = await alerts()
    expect(rest).to.deep.equal([])
    expect(row).to.include({
      container_id: guest.id,
      container_name: 'bad-guest',
      type: 'port_scan',
      count: 1,
    })
    expect(row).to.include({
      severity: 'medium',
      source_ip: address,
      target_ip: target,
      target_port: 0,
      action: '',
    })
    expect(row!['log_line']).to.match(/ medium port_scan bad-guest \S+ -> 198\.51\.100\.9: 20 ports of/)
    lab.clockMs += 10_000
    await check()
    expect((await newest())['count']).to.equal(2)
    expect(await read('/security/summary')).to.include({ total: 1 })
  })

  it('returns the result of the last check for five seconds, and does not check again in this time', async () => {
    const { length } = await alerts()
    await check()
    agent.host.sensor.scanPorts(address, '198.51.100.77', 20)
    lab.clockMs += 4000
    await check()
    expect(await alerts()).to.have.lengthOf(length)
    lab.clockMs += 1000
    await check()
    expect(await alerts()).to.have.lengthOf(length + 1)
  })

  it('lists alerts by type, severity and container, in pages', async () => {
    const all = await alerts()
    expect(await alerts('?type=port_scan')).to.have.lengthOf(all.length)
    for (const query of ['?type=ddos', '?severity=critical', '?container_name=good-guest'])
      expect(await alerts(query), query).to.deep.equal([])
    expect(await alerts('?page=2&page_size=1')).to.deep.equal([all[1]])
  })

  it('shows the present connections of a container, and the connections recorded with its alerts', async () => {
    const flow = {
      source: address,
      target,
      sourcePort: 40_000,
      targetPort: 81,
      protocol: 'tcp',
      state: 'SYN_SENT',
    }
    agent.host.sensor.flows = [{ ...flow, unreplied: true, leftSeconds: 60, bytes: 60, replyBytes: 0 }]
    const logs = (await read('/security/logs?container=bad-guest')) as Body[]
    agent.host.sensor.flows = []
    expect(logs[0]).to.include({
      src_ip: address,
      dst_ip: target,
      src_port: 40_000,
      dst_port: 81,
      state: 'SYN_SENT',
    })
    expect(logs.filter(({ state }) => state === 'REFUSED').length).to.be.within(20, 99)
    expect(await read('/security/logs?container=good-guest')).to.deep.equal([])
  })

  it('lists the recorded connections of all containers in pages', async () => {
    const all = await call('GET', '/security/logs')
    const rows = all.body.data as Body[]
    expect(rows.length).to.be.at.least(20)
    expect(all.headers['x-total-count']).to.equal(String(rows.length))
    expect(rows[0]).to.include({ container_name: 'bad-guest', container_id: guest.id, host_id: 'host-a' })
    const page = await call('GET', '/security/logs?page=2&page_size=5&host_id=host-a')
    expect([page.body.data, page.headers['x-total-count']]).to.deep.equal([rows.slice(5, 10), String(rows.length)])
    expect(await read(`/security/logs?container=${guest.id}&page=1&page_size=2`)).to.have.lengthOf(2)
    const key = await gateway.makeKey({ scopes: ['security:*'], container_uuids: [other.uuid] })
    expect((await call('GET', '/security/logs', { key })).body.data).to.deep.equal([])
  })

  it('accepts the numeric id of a container for a check', async () => {
    const { status, text } = await call('POST', '/security/check', { body: { container_name: guest.id } })
    expect(status, text).to.equal(200)
  })

  for (const [name, method, path, options, status, code] of [
    ['logs of an unknown host', 'GET', '/security/logs?host_id=none', {}, 400, 'invalid_field'],
    ['logs of a missing container', 'GET', '/security/logs?container=none', {}, 404, 'not_found'],
    [
      'a check of a missing container',
      'POST',
      '/security/check',
      { body: { container_name: 'none' } },
      404,
      'not_found',
    ],
    ['settings without the field auto_shutdown', 'PUT', '/security/settings', { body: {} }, 400, 'missing_field'],
    [
      'an auto_shutdown that is not a boolean',
      'PUT',
      '/security/settings',
      { body: { auto_shutdown: 'perhaps' } },
      400,
      'invalid_field',
    ],
    ['alerts of an unknown host', 'GET', '/security/alerts?host_id=none', {}, 400, 'invalid_field'],
    ['alerts of an unknown type', 'GET', '/security/alerts?type=none', {}, 400, 'invalid_field'],
    [
      'an unknown value for the setting smtp of a container',
      'PUT',
      '/containers/bad-guest/security',
      { body: { smtp: 'ajar' } },
      400,
      'invalid_field',
    ],
  ] as const)
    it(`refuses ${name}`, async () => {
      const answer = await call(method, path, options)
      expect([answer.status, answer.body.code]).to.deep.equal([status, code])
    })

  it('shows callers bound to containers only these containers, and refuses changes by these callers', async () => {
    const key = await gateway.makeKey({ scopes: ['security:*'], container_uuids: [other.uuid] })
    for (const path of ['/security/alerts', '/security/logs?container=good-guest'])
      expect((await call('GET', path, { key })).body.data, path).to.deep.equal([])
    expect((await call('GET', '/security/summary', { key })).body.data).to.include({ total: 0 })
    expect((await call('GET', '/security/logs?container=bad-guest', { key })).status).to.equal(404)
    for (const [method, path] of [
      ['POST', '/security/check'],
      ['PUT', '/security/settings'],
      ['PUT', `/containers/${other.id}/security`],
    ] as const) {
      const answer = await call(method, path, { key, body: { auto_shutdown: false, smtp: 'open' } })
      expect([answer.status, answer.body.code], path).to.deep.equal([403, 'insufficient_scope'])
    }
  })
})
