import { expect } from 'chai'
import { pino } from 'pino'
import { validateConfig } from '../../../shared/config.js'
import type { BerthError } from '../../../shared/errors.js'
import { AgentConfigSchema } from '../../config.js'
import type { InterfaceIpv6 } from '../../host/net/ipv6-addresses.js'
import { Changes } from '../../state/changes.js'
import { openDatabase, type Database } from '../../state/database.js'
import { isUsed } from './held-prefixes.js'
import type { HostFacts } from './host-facts.js'
import { parseSubnet6 } from './ipv6.js'
import { planIpv6 } from './plan-ipv6.js'
import type { Ipv6Prefix } from './pool.js'
import { Routing } from './routing.js'
import { readHeldPrefixes, readPrefixes, replacePrefixes } from './address-tables.js'

/* Tests the pools in the database with fake facts about the host. test/host/addresses*.test.ts use a real host. */

const config = validateConfig(AgentConfigSchema, {}, 'test')
const route6 = { interface: 'eth0', gateway: 'fe80::ff' }
const facts: HostFacts = {
  listInterfaces: () => ['lo', 'eth0', 'eth0:1', 'eth1', config.network.bridge, `${config.network.interface_prefix}7`],
  listIpv4: () => [
    { interface: 'eth0', address: '198.51.100.1', prefixLength: 24 },
    { interface: 'eth0', address: '198.51.100.5', prefixLength: 24 },
  ],
  readDefaultRoutes: () => ({ ipv4: { interface: 'eth0', gateway: '198.51.100.254' }, ipv6: route6 }),
  listIpv6: () => [],
  listAddresses: () => [],
  isVirtual: () => false,
  probe: async () => new Map(),
}
/** A /64 on the uplink. Guests use it unless other prefixes are set. */
const found = {
  interface: 'eth0',
  address: '2001:0db8:0001:0000:0000:0000:0000:0001',
  prefixLength: 64,
  scope: 'global' as const,
  temporary: false,
  deprecated: false,
  tentative: false,
}

describe('the routing settings of a host', () => {
  let db: Database
  let routing: Routing
  let apply: () => Promise<unknown>
  let applied: number
  let own: InterfaceIpv6

  beforeEach(() => {
    own = found
    db = openDatabase(':memory:')
    applied = 0
    apply = async () => undefined
    const readIpv6 = (configured = readPrefixes(db), held = readHeldPrefixes(db)) =>
      planIpv6({
        held,
        isUsed: (one: Ipv6Prefix) => isUsed(db, one),
        uplink: route6,
        configured,
        addresses: [own],
        interfaces: facts.listInterfaces(),
        defaultRoute: route6,
        subnet6: parseSubnet6(config.network.subnet6),
        bridge: config.network.bridge,
      })
    routing = new Routing({
      changes: new Changes(db),
      config,
      book: { readIpv6 },
      log: pino({ level: 'silent' }),
      facts,
      applyAddresses: () => (applied++, apply()),
    })
    db.exec(
      `INSERT INTO guests (uuid, id, name, spec, status, wanted, idmap_slot, ipv4, mac, created_at_ms, revision)
       VALUES ('u1', 1, 'g1', '{}', 'running', 'running', 0, '10.64.0.2', '02:be:0a:40:00:02', 0, 0)`,
    )
  })
  afterEach(() => db.close())

  const item = (address: string, more = {}) => ({ address, interface: '', prefixLen: 0, gateway: '', ...more })
  const prefix = (text: string, more = {}) => ({
    interface: '',
    address: '',
    prefix: text,
    prefixLen: 64,
    gateway: '',
    ...more,
  })
  const give = (address: string): void =>
    void db
      .prepare('INSERT INTO guest_addresses (address, guest_uuid, family, position) VALUES (?, ?, ?, 0)')
      .run(address, 'u1', address.includes(':') ? 6 : 4)
  const map = (hostPort: number, hostIp = ''): void =>
    void db
      .prepare(
        `INSERT INTO port_mappings (guest_uuid, position, protocol, host_ip, host_port, host_port_end, container_port, container_port_end)
         VALUES ('u1', ?, 'tcp', ?, ?, ?, 22, 22)`,
      )
      .run(hostPort, hostIp, hostPort, hostPort)
  const codeOf = (change: Parameters<Routing['setRouting']>[0]): Promise<string> =>
    routing.setRouting(change).then(
      () => 'accepted',
      (error: BerthError) => error.code ?? String(error),
    )
  const addresses = (): string[] => routing.getRouting().ipv4Pool.map(({ address }) => address)
  const prefixes = (): string[] => routing.getRouting().ipv6Prefixes.map((one) => one.prefix)

  it('cannot replace a detected prefix while a guest has an address from it', async () => {
    give('2001:db8:1::5')
    expect(await codeOf({ ipv6Prefixes: [prefix('2001:db8:2::')] })).to.equal('address_in_use')
    expect(prefixes()).to.deep.equal(['2001:db8:1::'])
    expect(await codeOf({ ipv6Prefixes: [prefix('2001:db8:2::'), prefix('2001:db8:1::')] })).to.equal('accepted')
    expect(await codeOf({ ipv6Prefixes: [] })).to.equal('accepted') // an empty list: the detected prefix is used
    expect(await codeOf({ ipv6Prefixes: [prefix('2001:db8:1::', { gateway: '2001:db8:1::5' })] })).to.equal(
      'address_in_use',
    )
  })

  it('keep a detected prefix until other prefixes are set, even after a failed change', async () => {
    give('2001:db8:1::5')
    const held = (): string[] => readHeldPrefixes(db).map((one) => one.prefix)
    expect(await codeOf({ ipv6Prefixes: [] })).to.equal('accepted')
    expect(held()).to.deep.equal(['2001:db8:1::'])
    apply = () => Promise.reject(new Error('no'))
    expect(await codeOf({ ipv6Prefixes: [prefix('2001:db8:1::')] })).to.equal('Error: no')
    expect(held()).to.deep.equal(['2001:db8:1::'])
    apply = async () => undefined
    expect(await codeOf({ ipv6Prefixes: [prefix('2001:db8:1::')] })).to.equal('accepted')
    expect(held()).to.deep.equal([])
  })

  it('accept other prefixes as soon as a detected prefix has disappeared', async () => {
    give('2001:db8:1::5')
    await routing.setRouting({ ipv6Prefixes: [] })
    own = { ...found, address: '2001:0db8:0003:0000:0000:0000:0000:0001' }
    expect(prefixes()).to.deep.equal(['2001:db8:3::', '2001:db8:1::'])
    expect(await codeOf({ ipv6Prefixes: [prefix('2001:db8:2::')] })).to.equal('accepted')
  })

  it('accept a change that sends the current IPv6 prefixes unchanged, even the private prefix of NAT66', async () => {
    for (const prefixLength of [64, 128]) {
      own = { ...found, prefixLength }
      const { ipv6Prefixes } = routing.getRouting()
      expect(await codeOf({ ipv6Prefixes })).to.equal('accepted')
      expect(routing.getRouting().ipv6Prefixes).to.deep.equal(ipv6Prefixes)
      expect(await codeOf({ ipv6Prefixes: [...ipv6Prefixes, prefix('2001:db8:2::')] })).to.equal('accepted')
      expect(await codeOf({ ipv6Prefixes: [prefix('fd62:6572:7468::')] })).to.equal('invalid_field')
      expect(await codeOf({ ipv6Prefixes: [] })).to.equal('accepted')
    }
  })

  it('refuse a pool with an address of a port mapping', async () => {
    map(30_000, '198.51.100.5')
    expect(await codeOf({ ipv4Pool: [item('198.51.100.5')] })).to.equal('address_in_use')
    expect(addresses()).to.deep.equal([])
  })

  it('refuse a pool with the gateway or the address of the host', async () => {
    for (const address of ['198.51.100.1', '198.51.100.254'])
      expect(await codeOf({ ipv4Pool: [item(address)] }), address).to.equal('invalid_field')
  })

  for (const [what, name, code] of [
    ['an interface of the host', 'eth1', 'accepted'],
    ['the loopback interface', 'lo', 'invalid_field'],
    ['the bridge of guests', config.network.bridge, 'invalid_field'],
    ['an interface of a guest', `${config.network.interface_prefix}7`, 'invalid_field'],
    ['an interface whose name contains a colon', 'eth0:1', 'invalid_field'],
    ['an interface that does not exist', 'eth9', 'invalid_field'],
  ] as const)
    it(`${code === 'accepted' ? 'accept' : 'refuse'} a pool address on ${what}`, async () => {
      const change = { ipv4Pool: [item('203.0.113.1', { interface: name })] }
      expect(await codeOf(change)).to.equal(code)
    })

  it('offer no IPv6, and contain the reason, if the interface of the only prefix does not exist', async () => {
    const missing = { ...prefix('2001:db8:9::'), interface: 'gone0' }
    replacePrefixes(db, [missing])
    const status = await routing.getIpv6Status()
    expect(status).to.include({ available: false, mode: '' })
    expect(status.reason).to.contain('IPv6 prefixes are configured for gone0, which does not exist')
    replacePrefixes(db, [missing, { ...prefix('2001:db8:a::'), interface: 'eth0' }])
    expect(await routing.getIpv6Status()).to.include({ available: true, mode: 'routed' })
  })

  it('contain the number of mapped ports in the range, and each port counts only once', async () => {
    for (const port of [30_000, 30_001, 59_999]) map(port)
    map(30_002, '198.51.100.5')
    db.exec(
      "INSERT INTO port_mappings SELECT guest_uuid, position + 60000, 'udp', host_ip, host_port, host_port_end, container_port, container_port_end, description FROM port_mappings WHERE host_port < 30002",
    )
    expect(routing.getRouting()).to.include({ nat4PortsUsed: 4 })
  })

  it('accept a new port range without changing the host, but only if it contains all mapped ports', async () => {
    apply = () => Promise.reject(new Error('the host refuses'))
    map(30_500)
    expect(await codeOf({ nat4Ports: { start: 30_000, end: 30_999 } })).to.equal('accepted')
    expect(applied).to.equal(0)
    for (const [range, code] of [
      [{ start: 30_501, end: 30_999 }, 'port_conflict'],
      [{ start: 30_000, end: 30_499 }, 'port_conflict'],
      [{ start: 30_600, end: 30_599 }, 'invalid_field'],
      [{ start: 1023, end: 30_999 }, 'invalid_field'],
      [{ start: 30_000, end: 65_536 }, 'invalid_field'],
    ] as const)
      expect(await codeOf({ nat4Ports: range }), JSON.stringify(range)).to.equal(code)
    expect(routing.getRouting().nat4Ports).to.deep.equal({ start: 30_000, end: 30_999 })
  })

  describe('if the host rejects a change', () => {
    const change = {
      ipv4Pool: [item('203.0.113.1')],
      ipv6Prefixes: [prefix('2001:db8:2::')],
      nat4Ports: { start: 40_000, end: 40_999 },
    }

    it('are all rolled back', async () => {
      const before = routing.getRouting()
      apply = () => Promise.reject(new Error('the host refuses'))
      await expectRefusal()
      expect(routing.getRouting()).to.deep.equal(before)
      expect(applied).to.equal(2)
    })

    it('keep a new pool that a guest already uses, but roll back all other changes', async () => {
      apply = async () => {
        if (applied > 1) return
        give('203.0.113.1')
        throw new Error('the host refuses')
      }
      await expectRefusal()
      expect([addresses(), prefixes()]).to.deep.equal([['203.0.113.1'], ['2001:db8:1::']])
      const { start, end } = config.network.nat_ports
      expect(routing.getRouting().nat4Ports).to.deep.equal({ start, end })
    })

    async function expectRefusal(): Promise<void> {
      const failure = await routing.setRouting(change).catch((error: Error) => error)
      expect((failure as Error).message).to.equal('the host refuses')
    }
  })
})
