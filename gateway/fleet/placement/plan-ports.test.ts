import { expect } from 'chai'
import { BerthError } from '../../../shared/errors.js'
import {
  commonRange,
  countDuplicates,
  planHostPorts,
  PortSet,
  portsOf,
  withHostPort,
  type Mapping,
} from './plan-ports.js'

const range = { start: 20_000, end: 20_009 }

/** A mapping in canonical form. @param host first host port, or 0 */
function mapping(host: number, container = 80, length = 1, protocol = 'tcp'): Mapping {
  const endOf = (first: number): number => (first === 0 ? 0 : first + length - 1)
  const ends = { hostPortEnd: endOf(host), containerPortEnd: endOf(container) }
  return { protocol, hostPort: host, containerPort: container, ...ends }
}

function takenBy(...mappings: readonly Mapping[]): PortSet {
  const taken = new PortSet()
  for (const one of mappings) taken.add(portsOf(one))
  return taken
}

describe('the host ports of a fleet', () => {
  const cases: readonly [string, readonly Mapping[], readonly Mapping[], readonly number[] | string][] = [
    ['keeps a requested port that no other guest has', [mapping(20_003)], [mapping(20_002)], [20_003]],
    ['refuses a requested port that another guest has', [mapping(20_003)], [mapping(20_003)], 'port_conflict'],
    [
      'refuses a range that contains a port of another guest',
      [mapping(20_000, 80, 4)],
      [mapping(20_003)],
      'port_conflict',
    ],
    [
      'refuses a requested port if the mapping of another guest has the port end 0',
      [mapping(20_003)],
      [{ ...mapping(20_003), hostPortEnd: 0 }],
      'port_conflict',
    ],
    ['permits the same number with another protocol', [mapping(20_003)], [mapping(20_003, 53, 1, 'udp')], [20_003]],
    ['chooses the next free port', [mapping(0)], [mapping(20_000, 80, 3)], [20_003]],
    ['chooses different ports for several mappings', [mapping(0), mapping(0, 0)], [], [20_000, 20_001]],
    ['chooses no port that another mapping requests', [mapping(0), mapping(20_000)], [], [20_001, 20_000]],
    ['chooses adjacent ports for a range', [mapping(0, 80, 3)], [mapping(20_001)], [20_002]],
    ['keeps the numbers of a range inside the permitted ports', [mapping(0, 20_004, 3)], [], [20_004]],
    ['keeps no numbers that another guest has', [mapping(0, 20_004, 3)], [mapping(20_005)], [20_000]],
    ['finds no room for a range', [mapping(0, 80, 6)], [mapping(20_005)], 'resource_exhausted'],
    ['finds no free port', [mapping(0)], [mapping(20_000, 80, 10)], 'resource_exhausted'],
    ['permits the same port at two addresses of a guest', [mapping(20_001), mapping(20_001)], [], [20_001, 20_001]],
  ]
  for (const [title, wanted, others, result] of cases)
    it(title, () => {
      const facts = { taken: takenBy(...others), ranges: () => [range], random: () => 0 }
      const plan = (): unknown => planHostPorts(wanted, facts)
      if (typeof result === 'string') expect(plan).to.throw(BerthError).with.property('code', result)
      else expect(plan()).to.deep.equal(result)
    })

  it('prefers the first range, and uses the next one if the first is full', () => {
    const facts = { ranges: () => [{ start: 20_008, end: 20_009 }, range], taken: takenBy(), random: () => 0 }
    expect(planHostPorts([mapping(0), mapping(0), mapping(0)], facts)).to.deep.equal([20_008, 20_009, 20_000])
  })

  it('does not keep the numbers of a range that the host has refused', () => {
    const facts = { taken: takenBy(), ranges: () => [range], random: () => 0, isRetry: true }
    expect(planHostPorts([mapping(0, 20_004, 3)], facts)).to.deep.equal([20_000])
  })

  it('begins the search for a free port at a random port of the range', () => {
    const facts = { taken: takenBy(mapping(20_009)), ranges: () => [range], random: (max: number) => max - 1 }
    expect(planHostPorts([mapping(0)], facts)).to.deep.equal([20_000])
  })

  it('describes the guest that has a requested port only if this is permitted', () => {
    const facts = { taken: takenBy(mapping(20_003)), ranges: () => [range], random: () => 0 }
    const message = (more: object): string => {
      try {
        return String(planHostPorts([mapping(20_003)], { ...facts, ...more }))
      } catch (error) {
        return (error as Error).message
      }
    }
    expect(message({})).to.include('is used by another container of the fleet')
    expect(message({ holderOf: () => 'the container web on host-b' })).to.include(
      'is used by the container web on host-b',
    )
  })

  for (const [one, sent] of [
    [mapping(0, 80), mapping(20_007, 80)],
    [mapping(0, 80, 3), { ...mapping(20_007, 80, 3) }],
    [mapping(0, 0), { ...mapping(20_007, 0), containerPortEnd: 0 }],
  ] as const)
    it(`sends a chosen port for container port ${one.containerPort}-${one.containerPortEnd}`, () =>
      expect(withHostPort(one, 20_007)).to.deep.equal(sent))

  for (const [title, guests, count] of [
    ['no duplicates if guests have different ports', [[mapping(1024)], [mapping(1025)]], 0],
    ['a port that two guests have', [[mapping(1024)], [mapping(1024)]], 1],
    ['no duplicates if the protocols differ', [[mapping(1024)], [mapping(1024, 53, 1, 'udp')]], 0],
    ['no duplicates if one guest has a port at two addresses', [[mapping(1024), mapping(1024)], []], 0],
    ['each duplicate port of ranges once', [[mapping(1024, 80, 5)], [mapping(1026, 80, 5)], [mapping(1026)]], 3],
  ] as const)
    it(`counts ${title}`, () =>
      expect(countDuplicates(guests.map((portMappings) => ({ portMappings })))).to.equal(count))

  for (const [title, ranges, common] of [
    ['nothing without a range', [], undefined],
    ['the range of a single host', [range], range],
    ['the part that both ranges contain', [range, { start: 20_005, end: 30_000 }], { start: 20_005, end: 20_009 }],
    ['nothing if the ranges are separate', [range, { start: 30_000, end: 30_001 }], undefined],
  ] as const)
    it(`finds ${title}`, () => expect(commonRange(ranges)).to.deep.equal(common))
})
