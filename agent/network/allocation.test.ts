import { expect } from 'chai'
import { BerthError } from '../../shared/errors.js'
import { openDatabase, type Database } from '../state/database.js'
import { allocateIpv4, allocatePorts, checkPort, countPorts, deviceName } from './allocation.js'
import { formatIpv4, macOf, parseIpv4, parseSubnet } from './subnet.js'

const range = { start: 20000, end: 59999 }
const none = new Set<string>()

describe('allocation', () => {
  let db: Database
  beforeEach(() => {
    db = openDatabase(':memory:')
  })
  afterEach(() => db.close())

  function addGuest(index: number, ipv4: string): void {
    db.prepare(
      `INSERT INTO guests (uuid, id, name, spec, status, wanted, idmap_slot, ipv4, mac, created_at_ms, revision)
       VALUES (?, ?, ?, '{}', 'running', 'running', ?, ?, ?, 0, 0)`,
    ).run(`u${index}`, index, `g${index}`, index, ipv4, macOf(ipv4))
  }

  function addPorts(uuid: string, protocol: string, ports: readonly number[]): void {
    const insert = db.prepare(
      'INSERT INTO port_mappings (guest_uuid, position, protocol, host_port, container_port) VALUES (?, ?, ?, ?, 22)',
    )
    const offset = countPorts(db)
    db.transaction(() => ports.forEach((port, index) => insert.run(uuid, offset + index, protocol, port)))()
  }

  const codeOf = (work: () => unknown): string => {
    try {
      work()
    } catch (error) {
      return error instanceof BerthError ? error.code : String(error)
    }
    return 'no error'
  }

  describe('addresses', () => {
    it('grants exactly those of the subnet, each once', () => {
      const granted = new Set<string>()
      for (let i = 1; i <= 13; i++) {
        const ipv4 = allocateIpv4(db, '10.9.8.16/28')
        granted.add(ipv4)
        addGuest(i, ipv4)
      }
      const expected = Array.from({ length: 13 }, (_, i) => `10.9.8.${18 + i}`)
      expect([...granted]).to.have.members(expected)
      expect(codeOf(() => allocateIpv4(db, '10.9.8.16/28'))).to.equal('resource_exhausted')
    })

    it('finds the last free one of 65,533 at once', () => {
      const { first, last } = parseSubnet('10.64.0.0/16')
      db.transaction(() => {
        for (let at = first; at <= last; at++)
          if (at !== first + 777) addGuest(at - first + 1, formatIpv4(at))
      })()
      const begin = performance.now()
      expect(parseIpv4(allocateIpv4(db, '10.64.0.0/16'))).to.equal(first + 777)
      expect(performance.now() - begin).to.be.lessThan(500)
    })
  })

  describe('ports', () => {
    const ask = (count: number, part: object = {}): number[] =>
      allocatePorts(db, { range, protocol: 'tcp', count, taken: none, ...part })

    it('picks random ones of the range, all different', () => {
      const ports = ask(500)
      expect(new Set(ports).size).to.equal(500)
      expect(ports.every((port) => port >= 20000 && port <= 59999)).to.equal(true)
      expect([...ports].sort((p, q) => p - q)).to.not.deep.equal(ports)
    })

    it('picks none that is mapped, for 10,000 mappings and after', () => {
      addGuest(1, '10.64.0.2')
      addPorts('u1', 'tcp', ask(10_000))
      const begin = performance.now()
      for (let i = 0; i < 1000; i++) addPorts('u1', 'tcp', ask(1))
      expect(performance.now() - begin).to.be.lessThan(5000)
      expect(countPorts(db)).to.equal(11_000)
    })

    it('grants a nearly full range exactly', () => {
      const small = { start: 30000, end: 30099 }
      addGuest(1, '10.64.0.2')
      addPorts('u1', 'tcp', ask(95, { range: small }))
      const taken = new Set(['udp:30000'])
      const rest = ask(5, { range: small, taken })
      expect(codeOf(() => ask(6, { range: small, taken }))).to.equal('resource_exhausted')
      addPorts('u1', 'tcp', rest)
      expect(codeOf(() => ask(1, { range: small }))).to.equal('resource_exhausted')
      expect(ask(0, { range: small })).to.deep.equal([])
      expect(ask(100, { range: small, protocol: 'udp', taken: none })).to.have.lengthOf(100)
    })

    it('leaves out what else is taken', () => {
      const small = { start: 30000, end: 30003 }
      const taken = new Set(['tcp:30000', 'tcp:30001', 'tcp:30002', 'udp:30003', 'tcp:22'])
      expect(ask(1, { range: small, taken })).to.deep.equal([30003])
    })

    it('checks those that are asked for', () => {
      addGuest(1, '10.64.0.2')
      addPorts('u1', 'tcp', [20001])
      const check = (hostPort: number, protocol: 'tcp' | 'udp' = 'tcp'): string =>
        codeOf(() => checkPort(db, { range, protocol, hostPort, listening: new Set(['tcp:20500']) }))
      expect(check(20001)).to.equal('port_conflict')
      expect(check(20001, 'udp')).to.equal('no error')
      expect(check(20500)).to.equal('port_conflict')
      for (const bad of [19999, 60000, 0, -1, 1.5, NaN]) expect(check(bad)).to.equal('invalid_field')
    })
  })

  it('names interfaces within the length the kernel takes', () => {
    expect(deviceName('bt', 42)).to.equal('bt42')
    expect(deviceName('abcd', 12345678901)).to.have.lengthOf(15)
    for (const bad of [0, -1, 1.5, NaN, 123456789012345])
      expect(codeOf(() => deviceName('bt', bad))).to.equal('internal_error')
  })
})
