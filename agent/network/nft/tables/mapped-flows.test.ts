import { expect } from 'chai'
import fc from 'fast-check'
import { joinNeighbours, type MappedFlows } from './mapped-flows.js'

const flows = (hostPort: number, hostPortEnd = hostPort, more: Partial<MappedFlows> = {}): MappedFlows => ({
  protocol: 'udp',
  hostIp: '',
  hostPort,
  hostPortEnd,
  target: '10.64.0.2',
  ...more,
})

const anyFlows = fc
  .record({
    protocol: fc.constantFrom('tcp' as const, 'udp' as const),
    hostIp: fc.constantFrom('', '198.18.0.1', '198.18.0.2'),
    hostPort: fc.integer({ min: 1, max: 40 }),
    length: fc.integer({ min: 0, max: 15 }),
    target: fc.constantFrom('10.64.0.2', '10.64.0.3', '10.64.0.4', '2001:db8::2', '2001:db8::3'),
  })
  .map(({ length, ...rest }): MappedFlows => ({ ...rest, hostPortEnd: rest.hostPort + length }))

describe('the union of adjacent mapped ports into ranges', () => {
  for (const [name, all, joined] of [
    ['returns an empty list if there are no mappings', [], []],
    ['joins adjacent ports in any order', [flows(3), flows(1), flows(2)], [flows(1, 3)]],
    ['does not join ports across a gap', [flows(1), flows(3)], [flows(1), flows(3)]],
    [
      'joins duplicate ranges, and joins a range with the ranges that it contains',
      [flows(1, 9), flows(2, 3), flows(1, 9)],
      [flows(1, 9)],
    ],
    ['does not join ports with different targets', [flows(1), flows(2, 2, { target: '10.64.0.3' })], undefined],
    ['does not join ports of different protocols', [flows(1), flows(2, 2, { protocol: 'tcp' })], undefined],
    ['does not join ports of different host addresses', [flows(1), flows(2, 2, { hostIp: '198.18.0.1' })], undefined],
  ] as const)
    it(name, () => expect(joinNeighbours(all)).to.deep.equal(joined ?? all))

  it('changes neither ports nor targets', () => {
    const portsIn = (all: readonly MappedFlows[]): string[] => {
      const ports = all.flatMap(({ hostPort, hostPortEnd, protocol, hostIp, target }) =>
        Array.from({ length: hostPortEnd - hostPort + 1 }, (_, i) =>
          [protocol, hostIp, target, hostPort + i].join(' '),
        ),
      )
      return [...new Set(ports)].sort()
    }
    const isJoined = (all: readonly MappedFlows[]): void => {
      const joined = joinNeighbours(all)
      expect(portsIn(joined)).to.deep.equal(portsIn(all))
      expect(joinNeighbours(joined)).to.deep.equal(joined)
    }
    fc.assert(fc.property(fc.array(anyFlows, { maxLength: 12 }), isJoined))
  })
})
