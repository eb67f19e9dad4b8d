import { expect } from 'chai'
import type { Guest } from '../../../proto/gen/berth/agent/v1/guest.js'
import type { Body } from '../../support/body.js'
import type { MemoryProbe } from '../../support/memory/memory-probe.js'
import { SubUserCalls } from '../../support/gateway/sub-user-calls.js'
import { startTestGateway, type TestGateway } from '../../support/gateway/test-gateway.js'
import { waitFor } from '../../support/wait.js'

describe('the connection check of a container', function () {
  let gateway: TestGateway
  let guest: Guest
  let probe: MemoryProbe
  let path: string

  before(async () => {
    gateway = await startTestGateway()
    probe = gateway.fleet.agentOf('host-a').host.probe
  })
  after(() => gateway.close())
  beforeEach(async () => {
    guest = await gateway.fleet.addGuest()
    path = `/containers/${guest.id}/connection`
    probe.listeners = [{ port: 22, isReachable: true }]
    probe.outcomes.clear()
    probe.tried.length = 0
  })

  async function ask(query = '', options = {}): Promise<Body> {
    const { status, text, body } = await gateway.request('GET', path + query, options)
    expect(status, text).to.equal(200)
    return body.data
  }
  const send = async (method: 'POST' | 'PUT' | 'DELETE', end: string, body?: object): Promise<void> => {
    const { status, text } = await gateway.request(method, `/containers/${guest.id}${end}`, { body })
    expect(status, text).to.be.lessThan(300)
  }
  /** Sends the request that the diagnosis offers as a repair. */
  async function repair(found: Body): Promise<void> {
    const { method, path: where, body, if_match: ifMatch } = found.repair
    const headers = { ...(ifMatch && { 'If-Match': String(ifMatch) }) }
    const { status, text } = await gateway.request(method, where, { body, headers })
    expect(status, text).to.be.lessThan(300)
  }

  it('reports a reachable port if the host can connect to it', async () => {
    const found = await ask()
    expect(found).to.include({
      reachable: true,
      failed_step: null,
      code: '',
      repair: null,
      container_port: 22,
    })
    expect(found).to.include({ port: guest.sshPort, address: '', source: '127.0.0.1' })
    expect(found.shown_address).to.equal('192.0.2.10')
    expect(stepsOf(found).map(({ state }) => state)).to.deep.equal(Array(8).fill('ok'))
    expect(probe.tried).to.deep.equal([`${guest.ipv4}:22`, `192.0.2.10:${guest.sshPort}`])
  })

  it('offers to start a stopped guest, without trying to connect', async () => {
    guest = await gateway.fleet.addGuest({ status: 'stopped' })
    path = `/containers/${guest.id}/connection`
    const found = await ask()
    expect(found).to.include({ reachable: false, failed_step: 'running', code: 'not_running' })
    expect(found.repair).to.include({
      action: 'start',
      method: 'POST',
      path: `/containers/${guest.id}/start`,
    })
    expect(probe.tried).to.deep.equal([])
    await repair(found)
  })

  it('lists the other ports on which the guest listens if nothing listens on the checked port', async () => {
    probe.listeners = [8080, 80].map((port) => ({ port, isReachable: true }))
    const found = await ask()
    expect(found).to.include({ failed_step: 'listening', code: 'nothing_listens' })
    expect(found.listening_ports).to.deep.equal([80, 8080])
    expect(found.repair, 'a restart would not install a service').to.equal(null)
  })

  it('offers to add a missing port mapping, and the added mapping makes the port reachable', async () => {
    probe.listeners = [{ port: 443, isReachable: true }]
    const found = await ask('?port=443')
    expect(found).to.include({ failed_step: 'mapping', code: 'no_mapping', port: 0 })
    expect(found.repair.body).to.deep.equal({ protocol: 'tcp', container_port: 443 })
    await repair(found)
    const mended = await ask('?port=443')
    expect(mended.reachable).to.equal(true)
    expect(mended.port).to.be.greaterThan(0)
  })

  it('finds a port in a mapped range, and a port of a guest with a public address', async () => {
    await send('POST', '/port-mappings', {
      container_port: 7000,
      container_port_end: 7009,
      host_port: 47_000,
    })
    probe.listeners = [7003, 22].map((port) => ({ port, isReachable: true }))
    expect((await ask('?port=7003')).port).to.equal(47_003)
    const own = await gateway.fleet.addGuest({ publicIpv4s: ['203.0.113.9'], portMappings: [] })
    path = `/containers/${own.id}/connection`
    expect(await ask()).to.include({ reachable: true, address: '203.0.113.9', port: 22 })
  })

  it('checks the firewall for a given source address, and offers a rule for only this address', async () => {
    const rules = [
      { direction: 'in', protocol: 'tcp', action: 'ACCEPT', port: '22', source_ip: '198.51.100.0/24' },
      { direction: 'out', protocol: 'udp', action: 'DROP' },
    ]
    await send('PUT', '/firewall', { enabled: true, default_action: 'DROP', rules })
    const inside = await ask('?source=198.51.100.7')
    expect(inside).to.include({ reachable: true, source: '198.51.100.7' })
    expect(stepsOf(inside).at(-1)).to.include({ state: 'skipped', code: 'host_not_let_in' })
    expect(probe.tried).to.deep.equal([])
    const found = await ask('?source=203.0.113.5')
    expect(found).to.include({ failed_step: 'firewall', code: 'firewall_drops' })
    expect(found.repair.action).to.equal('open_firewall')
    await repair(found)
    expect((await ask('?source=203.0.113.5')).reachable).to.equal(true)
    const { body } = await gateway.request('GET', `/containers/${guest.id}/firewall`)
    expect(body.data.rules).to.have.length(3)
    expect(body.data).to.include({ enabled: true, default_action: 'DROP' })
    const again = await gateway.request('PUT', `/containers/${guest.id}/firewall`, {
      body: found.repair.body,
      headers: { 'If-Match': String(found.repair.if_match) },
    })
    expect([again.status, again.body.code], 'the present rules').to.deep.equal([412, 'precondition_failed'])
  })

  it('distinguishes a silent guest from a host that does not forward packets', async () => {
    probe.outcomes.set(`${guest.ipv4}:22`, 'silent')
    expect(await ask()).to.include({ failed_step: 'guest', code: 'guest_silent', repair: null })
    probe.outcomes.set(`${guest.ipv4}:22`, 'open').set(`192.0.2.10:${guest.sshPort}`, 'silent')
    expect(await ask()).to.include({ failed_step: 'connection', code: 'not_forwarded' })
  })

  it('reports an expiry, a used-up quota or a stop for abuse before all other findings', async () => {
    const state = (policy: object): void =>
      gateway.fleet.agentOf('host-a').update(guest.uuid, { policy: { expired: false, overQuota: false, ...policy } })
    // Sets the state before each check, because the agent's evaluation overwrites it every few seconds.
    const found = async (policy: object, code: string): Promise<Body> => {
      let answer: Body
      await waitFor(async () => (state(policy), (answer = await ask()).code === code), { what: code })
      return answer
    }
    expect((await found({ expired: true }, 'expired')).repair).to.include({
      action: 'set_expiry',
      body: null,
    })
    const usedUp = await found({ overQuota: true }, 'traffic_used_up')
    expect([usedUp.failed_step, usedUp.repair.action]).to.deep.equal(['allowed', 'reset_traffic'])
    await found({ abuse: 'port_scan' }, 'stopped_for_abuse')
    state({})
  })

  it('offers only repairs that the caller is allowed to make', async () => {
    const expire = (expired: boolean): void =>
      gateway.fleet.agentOf('host-a').update(guest.uuid, {
        expiresAtMs: expired ? 1 : 0,
        policy: { expired, overQuota: false },
      })
    expire(true)
    const calls = new SubUserCalls(gateway)
    const made = await calls.make({ container_name: guest.name })
    const customer = await calls.loggedIn(made)
    const { status, text, body } = await customer('GET', path)
    expect(status, text).to.equal(200)
    expect(body.data).to.include({ code: 'expired', repair: null })
    expire(false)
    const key = await gateway.makeKey({ scopes: ['container:read'], container_uuids: [guest.uuid] })
    await send('PUT', '/firewall', { enabled: true, default_action: 'DROP', rules: [] })
    expect((await ask('', { key })).code).to.equal('firewall_drops')
    expect((await ask('', { key })).repair, 'no rules are shown').to.equal(null)
  })

  it('refuses invalid ports and addresses, and finds only containers of the caller', async () => {
    for (const [query, field] of [
      ['?port=0', 'port'],
      ['?port=65536', 'port'],
      ['?port=ssh', 'port'],
      ['?source=here', 'source'],
      ['?source=10.0.0.0/8', 'source'],
    ]) {
      const { status, body } = await gateway.request('GET', path + query)
      expect([status, body.details?.field], query).to.deep.equal([400, field])
    }
    const other = await gateway.fleet.addGuest()
    const key = await gateway.makeKey({ scopes: ['container:read'], container_uuids: [other.uuid] })
    const strange = await gateway.request('GET', path, { key })
    expect([strange.status, strange.body.code]).to.deep.equal([404, 'not_found'])
    const blind = await gateway.makeKey({ scopes: ['task:read'] })
    expect((await gateway.request('GET', path, { key: blind })).status).to.equal(403)
  })

  describe('for the public address', () => {
    const setAddress = async (address: string): Promise<void> => {
      const { status, text } = await gateway.request('PATCH', '/hosts/host-a', {
        body: { public_address: address },
      })
      expect(status, text).to.equal(200)
    }
    after(() => setAddress('192.0.2.10'))

    for (const [name, address, state, code] of [
      ['an address of the host', '192.0.2.11', 'ok', ''],
      ['an address of a different server', '203.0.113.99', 'failed', 'public_address_elsewhere'],
      ['a name that does not resolve', 'nowhere.invalid', 'failed', 'public_address_unresolved'],
    ] as const)
      it(`has the state “${state}” for ${name}`, async () => {
        await setAddress(address)
        const found = await ask()
        const step = (found.steps as { name: string }[]).find((one) => one.name === 'address')
        expect(step).to.include({ state, code })
        expect(found).to.include({ shown_address: address, reachable: state === 'ok' })
        const { body } = await gateway.request('GET', `/containers/${guest.id}`)
        expect(body.data.ssh_host, 'it is the address of the SSH command').to.equal(address)
      })
  })

  it('connects only once if several callers send the same request at the same time', async () => {
    let release = (): void => undefined
    probe.hold = new Promise((resolve) => (release = resolve))
    let calls = 0
    gateway.fleet.twist = countCalls(() => calls++)
    const asked = Array.from({ length: 10 }, () => ask())
    await waitFor(() => calls === 10 && probe.tried.length > 0, { what: 'all have asked' })
    release()
    await Promise.all(asked)
    gateway.fleet.twist = (client) => client
    expect(probe.tried).to.have.length(2)
    await ask()
    expect(probe.tried, 'runs again for a later caller').to.have.length(4)
  })

  it('refuses a third check of a caller while two other checks of the same caller run', async () => {
    let release = (): void => undefined
    probe.hold = new Promise((resolve) => (release = resolve))
    const of = (source: number) => gateway.request('GET', `${path}?source=192.0.2.${source}`)
    const first = [of(1), of(2)]
    try {
      await waitFor(() => probe.tried.length === 2, { what: 'two checks' })
      const third = await of(3)
      expect([third.status, third.body.code]).to.deep.equal([429, 'rate_limited'])
    } finally {
      release()
    }
    expect((await Promise.all(first)).map(({ status }) => status)).to.deep.equal([200, 200])
  })

  it('drops unknown values from the answer of an agent', async () => {
    gateway.fleet.twist = (client) => ({
      ...client,
      guests: {
        ...client.guests,
        diagnoseConnection: async () => ({
          address: '<b>',
          outsidePort: 99_999,
          listeningPorts: [0, 70_000, 80],
          hostAddresses: ['<b>', '192.0.2.10'],
          steps: [
            { name: '__proto__', state: 'failed', code: 'x' },
            { name: 'running', state: 'failed', code: '<script>' },
          ],
        }),
      },
    })
    const found = await ask()
    gateway.fleet.twist = (client) => client
    expect(found).to.include({ address: '', port: 0, failed_step: 'running', code: '' })
    expect(found.listening_ports).to.deep.equal([80])
    expect(found.steps).to.have.length(1)
  })
})

const stepsOf = (found: Body) => found.steps as { readonly state: string; readonly code: string }[]

/** Calls `count` once the agent has received a request for a diagnosis. Its answer to a second request shows this. */
function countCalls(count: () => void): TestGateway['fleet']['twist'] {
  return (client) => ({
    ...client,
    guests: {
      ...client.guests,
      diagnoseConnection: (request) => {
        const answer = client.guests.diagnoseConnection(request)
        client.guests.getGuestUsage({ uuid: request.uuid }).then(count, count)
        return answer
      },
    },
  })
}
