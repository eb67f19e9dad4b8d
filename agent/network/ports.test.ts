import { expect } from 'chai'
import fc from 'fast-check'
import { BerthError } from '../../shared/errors.js'
import { openDatabase, type Database } from '../state/database.js'
import { countPorts, PortChoice, type PortRequest, type PortSpan } from './ports.js'

const range = { start: 20000, end: 59999 }
const none = new Set<string>()

describe('host ports', () => {
  let db: Database
  beforeEach(() => {
    db = openDatabase(':memory:')
    db.exec(
      `INSERT INTO guests (uuid, id, name, spec, status, wanted, idmap_slot, ipv4, mac, created_at_ms, revision)
       VALUES ('u1', 1, 'g1', '{}', 'running', 'running', 0, '10.64.0.2', '02:be:0a:40:00:02', 0, 0)`,
    )
  })
  afterEach(() => db.close())

  const span = (first: number, last = first, hostIp = '', protocol: PortSpan['protocol'] = 'tcp'): PortSpan => ({
    protocol,
    hostIp,
    first,
    last,
  })

  function map(...spans: PortSpan[]): void {
    const insert = db.prepare(
      `INSERT INTO port_mappings (guest_uuid, position, protocol, host_ip, host_port, host_port_end, container_port, container_port_end)
       VALUES ('u1', ?, ?, ?, ?, ?, 22, 22)`,
    )
    const offset = db.prepare<[], number>('SELECT count(*) FROM port_mappings').pluck().get()!
    db.transaction(() => spans.forEach((s, i) => insert.run(offset + i, s.protocol, s.hostIp, s.first, s.last)))()
  }

  const choice = (within = range, listening: ReadonlySet<string> = none): PortChoice =>
    new PortChoice(db, within, listening)

  const pick = (count: number, part: Partial<PortRequest> = {}, within = range, listening = none): number[] =>
    choice(within, listening).pick({ protocol: 'tcp', hostIp: '', count, ...part })

  const codeOf = (work: () => unknown): string => {
    try {
      work()
    } catch (error) {
      return error instanceof BerthError ? error.code : String(error)
    }
    return 'no error'
  }

  it('are picked at random, and each port at most once', () => {
    const ports = pick(500)
    expect(new Set(ports).size).to.equal(500)
    expect(ports.every((port) => port >= 20000 && port <= 59999)).to.equal(true)
    expect([...ports].sort((p, q) => p - q)).to.not.deep.equal(ports)
  })

  it('are picked quickly even if 10,000 ports are mapped', () => {
    map(...pick(10_000).map((port) => span(port)))
    const begin = performance.now()
    for (let i = 0; i < 500; i++) map(span(pick(1)[0]!))
    expect(performance.now() - begin).to.be.lessThan(5000)
    expect(countPorts(db, range)).to.equal(10_500)
    const rows = db.prepare('SELECT DISTINCT host_port FROM port_mappings').all()
    expect(rows).to.have.lengthOf(10_500)
  })

  it('are picked until the last port of the range is taken', () => {
    const small = { start: 30000, end: 30099 }
    map(...pick(95, {}, small).map((port) => span(port)))
    const rest = pick(5, {}, small, new Set(['udp:30000']))
    expect(codeOf(() => pick(6, {}, small))).to.equal('resource_exhausted')
    map(...rest.map((port) => span(port)))
    expect(codeOf(() => pick(1, {}, small))).to.equal('resource_exhausted')
    expect(pick(0, {}, small)).to.deep.equal([])
    expect(pick(100, { protocol: 'udp' }, small)).to.have.lengthOf(100)
  })

  it('are not picked if a program of the host listens on these ports', () => {
    const small = { start: 30000, end: 30003 }
    const listening = new Set(['tcp:30000', 'tcp:30001', 'tcp:30002', 'udp:30003', 'tcp:22'])
    expect(pick(1, {}, small, listening)).to.deep.equal([30003])
  })

  it('are picked as a range if a range of free ports is long enough', () => {
    const small = { start: 30000, end: 30099 }
    map(span(30000, 30049), span(30060, 30099))
    expect(pick(1, { length: 10 }, small)).to.deep.equal([30050])
    expect(codeOf(() => pick(1, { length: 11 }, small))).to.equal('resource_exhausted')
    expect(codeOf(() => pick(1, { length: 1000 }, small))).to.equal('resource_exhausted')
    expect(countPorts(db, small)).to.equal(90)
  })

  it('are counted only once if several mappings use them, and are not counted outside the range', () => {
    map(span(30_000), span(30_000, 30_000, '', 'udp'), span(30_000, 30_000, '198.18.0.1', 'udp'))
    map(span(30_005, 30_014), span(30_010, 30_019, '', 'udp'), span(30_012, 30_013, '198.18.0.1', 'udp'))
    map(span(30_050, 30_149, '', 'udp'), span(29_990, 29_999), span(40_000))
    expect(countPorts(db, { start: 30_000, end: 30_099 })).to.equal(1 + 15 + 50)
    expect(countPorts(db, { start: 29_995, end: 50_000 })).to.equal(5 + 1 + 15 + 100 + 1)
    expect(countPorts(db, { start: 50_000, end: 50_001 })).to.equal(0)
  })

  const conflicts: [name: string, mapped: PortSpan[], wanted: PortSpan, code: string][] = [
    ['if they are already mapped', [span(20001)], span(20001), 'port_conflict'],
    ['if they are mapped only with another protocol', [span(20001)], span(20001, 20001, '', 'udp'), 'no error'],
    ['if they are inside a mapped range', [span(20000, 20999)], span(20500), 'port_conflict'],
    ['if they include a mapped port', [span(20500)], span(20000, 20999), 'port_conflict'],
    ['if they end inside a mapped range', [span(20500, 20600)], span(20400, 20500), 'port_conflict'],
    ['if they begin inside a mapped range', [span(20500, 20600)], span(20600, 20700), 'port_conflict'],
    ['if they are exactly between two mappings', [span(20500, 20599), span(20700)], span(20600, 20699), 'no error'],
    [
      'on one address if they are mapped on all addresses',
      [span(20001)],
      span(20001, 20001, '198.51.100.1'),
      'port_conflict',
    ],
    [
      'on all addresses if they are mapped on one address',
      [span(20001, 20001, '198.51.100.1')],
      span(20001),
      'port_conflict',
    ],
    [
      'if they are mapped on the same address',
      [span(20001, 20005, '198.51.100.1')],
      span(20003, 20003, '198.51.100.1'),
      'port_conflict',
    ],
    [
      'if they are mapped on another address',
      [span(20001, 20001, '198.51.100.1')],
      span(20001, 20001, '198.51.100.2'),
      'no error',
    ],
    [
      'if they are mapped on many addresses, including the requested address',
      [1, 2, 3, 4, 5].map((n) => span(20001, 20001, `198.51.100.${n}`)),
      span(20001, 20001, '198.51.100.5'),
      'port_conflict',
    ],
    ['if a program of the host listens on one of these ports', [], span(24950, 25050), 'port_conflict'],
    ['if they are below the configured range', [], span(19999), 'port_conflict'],
    ['if they exceed the configured range', [], span(59990, 60000), 'port_conflict'],
  ]
  for (const [name, mapped, wanted, code] of conflicts)
    it(`are ${code === 'no error' ? 'granted' : 'refused'} on request ${name}`, () => {
      map(...mapped)
      expect(codeOf(() => choice(range, new Set(['tcp:25000'])).take(wanted))).to.equal(code)
    })

  it('in a request are refused if they overlap other ports of the same request', () => {
    const one = choice({ start: 30000, end: 30009 })
    one.take(span(30000, 30004))
    expect(codeOf(() => one.take(span(30004, 30005, '198.51.100.1')))).to.equal('port_conflict')
    expect(one.pick({ protocol: 'tcp', hostIp: '', count: 5 }).toSorted()).to.deep.equal([
      30005, 30006, 30007, 30008, 30009,
    ])
    expect(codeOf(() => one.pick({ protocol: 'tcp', hostIp: '198.51.100.1', count: 1 }))).to.equal('resource_exhausted')
  })

  it('in a request are refused if they overlap an existing mapping, and are granted otherwise', () => {
    const address = fc.constantFrom('', '198.51.100.1', '198.51.100.2')
    const anySpan = fc
      .tuple(fc.integer({ min: 30000, max: 30060 }), fc.integer({ min: 0, max: 12 }), address)
      .map(([first, more, hostIp]) => span(first, first + more, hostIp))
    fc.assert(
      fc.property(fc.array(anySpan, { maxLength: 40 }), (wanted) => {
        db.exec('DELETE FROM port_mappings')
        const kept: PortSpan[] = []
        for (const one of wanted) {
          const meets = kept.some(
            (other) =>
              (one.hostIp === '' || other.hostIp === '' || one.hostIp === other.hostIp) &&
              one.first <= other.last &&
              other.first <= one.last,
          )
          expect(codeOf(() => choice().take(one))).to.equal(meets ? 'port_conflict' : 'no error')
          if (!meets) (kept.push(one), map(one))
        }
      }),
      { numRuns: 200 },
    )
  })
})
