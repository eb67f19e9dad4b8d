import { expect } from 'chai'
import fc from 'fast-check'
import type { GuestNetwork } from '../../contract.js'
import { ElementIndex } from './element-index.js'
import { noChange, type TableChange } from './plan-change.js'
import { countersOf, planGuest, type ElementId } from './plan-guest.js'

type Port = [host: number, container: number, hostEnd?: number]

function guest(id: number, ipv4: string, ports: Port[] = [], more: Partial<GuestNetwork> = {}): GuestNetwork {
  const portMappings = ports.map(([hostPort, containerPort, hostPortEnd = hostPort]) => {
    return { protocol: 'tcp', hostIp: '', hostPort, hostPortEnd, containerPort } as const
  })
  const mac = `02:be:00:00:00:0${id}`
  const none = { publicIpv4s: [], ipv6Addresses: [] }
  return { uuid: `uuid-${id}`, device: `bt${id}`, mac, ipv4, portMappings, ...none, ...more }
}

const firewall = { enabled: true, defaultAction: 'DROP', rules: [] } as const
const one = guest(1, '10.64.0.2', [[20001, 22]])
const idsOf = (...guests: GuestNetwork[]): ElementId[] => guests.flatMap((each) => [...planGuest(each).elements.keys()])
const of = (id: number, ipv4: string): ElementId => `guests "bt${id}" . 02:be:00:00:00:0${id} . ${ipv4}`

/** Returns the index after these guests were attached one by one. */
function indexOf(...guests: GuestNetwork[]): ElementIndex {
  const index = new ElementIndex()
  for (const each of guests) index.applied(index.planAttach(each))
  return index
}

describe('the planned change of nft set elements', () => {
  for (const [name, have, want, remove] of [
    ['adds the elements of a new guest', [], one, []],
    ['adds all elements of an unchanged guest again, because nft accepts existing elements', [one], one, []],
    [
      'adds the element of a new mapping and removes the element of an old mapping',
      [one],
      guest(1, '10.64.0.2', [[20009, 80]]),
      ['ports 6 . 20001'],
    ],
    [
      'replaces the element of a mapped port whose target changed',
      [one],
      guest(1, '10.64.0.2', [[20001, 80]]),
      ['ports 6 . 20001'],
    ],
    [
      'replaces all elements of a guest whose address changed',
      [one],
      guest(1, '10.64.0.3'),
      idsOf(one).filter((id) => id !== `sent ${one.mac}`),
    ],
    [
      'removes the elements of another guest that had the same address and was never detached',
      [one],
      guest(2, '10.64.0.2'),
      [of(1, '10.64.0.2'), 'ports 6 . 20001', `sent ${one.mac}`],
    ],
    [
      'removes the port element of another guest that had the same mapped port and was never detached',
      [one],
      guest(2, '10.64.0.3', [[20001, 22]]),
      ['ports 6 . 20001'],
    ],
    [
      'removes the range element of another guest that was never detached, if the ranges overlap',
      [guest(1, '10.64.0.2', [[3000, 3000, 3999]])],
      guest(2, '10.64.0.3', [[3999, 3999, 4010]]),
      ['port_ranges 0.0.0.0/0 . 6 . 3000-3999'],
    ],
    [
      'removes the address element of another guest that had the same public address and was never detached',
      [guest(1, '10.64.0.2', [], { publicIpv4s: ['203.0.113.5'] })],
      guest(2, '10.64.0.3', [], { publicIpv4s: ['203.0.113.5'] }),
      ['public_in 203.0.113.5'],
    ],
    [
      'removes the elements of a removed public address',
      [guest(1, '10.64.0.2', [], { publicIpv4s: ['203.0.113.5'] })],
      guest(1, '10.64.0.2'),
      ['public_in 203.0.113.5', 'public_out 10.64.0.2'],
    ],
    [
      'removes the elements of a removed IPv6 address',
      [guest(1, '10.64.0.2', [[20001, 22]], { ipv6Addresses: ['2001:db8::2'] })],
      guest(1, '10.64.0.2', [[20001, 22]]),
      idsOf(guest(1, '10.64.0.2', [[20001, 22]], { ipv6Addresses: ['2001:db8::2'] })).filter(
        (id) => !idsOf(one).includes(id),
      ),
    ],
    [
      'removes the elements of a removed firewall',
      [{ ...one, firewall }],
      one,
      ['firewall_in 10.64.0.2', 'firewall_out 10.64.0.2'],
    ],
  ] as [string, GuestNetwork[], GuestNetwork, ElementId[]][])
    it(`${name} (planAttach)`, () => {
      const change = indexOf(...have).planAttach(want)
      expect([...change.remove].sort()).to.deep.equal([...remove].sort())
      const there = new Map(have.flatMap((each) => [...planGuest(each).elements]))
      const differing = [...planGuest(want).elements].filter(([id, value]) => there.get(id) !== value)
      const isSame = remove.length + differing.length === 0
      expect(change.add).to.deep.equal(isSame ? planGuest(want).elements : new Map(differing))
    })

  it('adds only the new mapping’s element to a thousand existing elements (planAttach)', () => {
    const ports = Array.from({ length: 999 }, (_, i): Port => [20001 + i, 22])
    const change = indexOf(guest(1, '10.64.0.2', ports)).planAttach(guest(1, '10.64.0.2', [...ports, [21000, 22]]))
    expect(change).to.deep.equal({ ...noChange, add: new Map([['ports 6 . 21000', '10.64.0.2 . 22']]) })
  })

  it('repairs elements of an attached guest that other programs changed (planAttach)', () => {
    const robbed = indexOf(one, guest(2, '10.64.0.3', [[20001, 22]])).planAttach(one)
    expect([robbed.remove, [...robbed.add]]).to.deep.equal([
      ['ports 6 . 20001'],
      [['ports 6 . 20001', '10.64.0.2 . 22']],
    ])
    const index = indexOf(one)
    index.applied(
      index.planAll([
        {
          ...one,
          portMappings: guest(1, '', [
            [20001, 22],
            [20002, 80],
          ]).portMappings,
        },
      ]),
    )
    expect(index.planAttach(one).remove).to.deep.equal(['ports 6 . 20002'])
  })

  it('sets a firewall again only if its rules or the chains on the host have changed (planAttach)', () => {
    const closed = { ...one, firewall }
    const index = indexOf(one)
    const set = index.planAttach(closed)
    expect(set.setFirewalls).to.deep.equal([{ device: 'bt1', in: ['drop'], out: ['drop'] }])
    index.applied(set)
    const again = index.planAttach(closed)
    expect(again.setFirewalls).to.deep.equal([])
    expect([...again.add.keys()]).to.deep.equal(idsOf(one))
    const open = { ...one, firewall: { ...firewall, defaultAction: 'ACCEPT' } as const }
    expect(index.planAttach(open).setFirewalls[0]?.in).to.deep.equal(['return'])
    expect(index.planAttach(one).dropFirewalls).to.deep.equal(['bt1'])
    const firewalls = new Map([['bt1', { planned: '', note: 'note_bt1_x' }]])
    const damaged = new ElementIndex({ elements: planGuest(closed).elements, firewalls })
    expect(damaged.planAll([closed])).to.deep.equal({ ...noChange, setFirewalls: set.setFirewalls })
  })

  it('removes all elements of a detached guest, but no elements of another guest (planDetach)', () => {
    const full = {
      ...one,
      firewall,
      publicIpv4s: ['203.0.113.5'],
      ipv6Addresses: ['2001:db8::2', '2001:db8::3'],
    }
    const index = indexOf(full, guest(2, '10.64.0.3', [[20002, 22]], { ipv6Addresses: ['2001:db8::4'] }))
    const change = index.planDetach(full)
    expect([...change.remove].sort()).to.deep.equal(idsOf(full).sort())
    expect(change.dropFirewalls).to.deep.equal(['bt1'])
  })

  it('keeps the counters of a guest until the guest is detached, even if its addresses change', () => {
    const index = indexOf(one)
    for (const ipv6Addresses of [['2001:db8::2', '2001:db8::3'], ['2001:db8::3'], []]) {
      const change = index.planAttach({ ...one, ipv6Addresses })
      for (const id of countersOf(one)) {
        expect(change.remove).to.not.include(id)
        expect(change.add.has(id)).to.equal(false)
      }
      index.applied(change)
    }
    expect(index.planDetach(one).remove).to.include.members(countersOf(one))
  })

  it('does nothing if the guest is already detached (planDetach)', () => {
    const index = indexOf(one)
    index.applied(index.planDetach(one))
    expect(index.planDetach(one)).to.deep.equal(noChange)
    expect(index.planAll([])).to.deep.equal(noChange)
  })

  it('keeps elements of another guest that now has the detached guest’s address (planDetach)', () => {
    const mac = one.mac // MACs are derived from addresses, so the next owner has the same MAC
    const index = indexOf(one, guest(2, '10.64.0.2', [[20002, 22]], { mac }))
    expect(index.planDetach(one)).to.deep.equal(noChange)
  })

  it('contains only missing and superfluous elements of the listed guests (planAll)', () => {
    const two = guest(2, '10.64.0.3', [[20002, 22]])
    const index = indexOf(one, two)
    expect(index.planAll([two, one])).to.deep.equal(noChange)
    const change = index.planAll([guest(2, '10.64.0.3', [[20002, 80]])])
    expect(change).to.deep.equal({
      ...noChange,
      remove: [...idsOf(one), 'ports 6 . 20002'],
      add: new Map([['ports 6 . 20002', '10.64.0.3 . 80']]),
    })
  })

  describe('after guests were attached and detached in any order', () => {
    const anyGuest = fc
      .record({
        id: fc.integer({ min: 1, max: 5 }),
        host: fc.integer({ min: 2, max: 5 }),
        ports: fc.uniqueArray(fc.integer({ min: 20000, max: 20004 })),
        range: fc.integer({ min: 1, max: 20 }),
        hasFirewall: fc.boolean(),
        ipv6: fc.subarray(['2001:db8::2', '2001:db8::3']),
        publicIpv4s: fc.subarray(['203.0.113.2', '203.0.113.3']),
      })
      .map(({ id, host, ports, range, hasFirewall, ipv6, publicIpv4s }) =>
        guest(id, `10.64.0.${host}`, [...ports.map((p): Port => [p, 22]), [range, range, range + 5]], {
          publicIpv4s,
          ipv6Addresses: ipv6,
          ...(hasFirewall ? { firewall } : {}),
        }),
      )
    const steps = fc.array(fc.tuple(fc.constantFrom('attach', 'detach', 'all'), anyGuest), { maxLength: 20 })
    const plan = (index: ElementIndex, [what, each]: [string, GuestNetwork]): TableChange =>
      what === 'all' ? index.planAll([each]) : what === 'attach' ? index.planAttach(each) : index.planDetach(each)

    it('gives the tables exactly the elements of the listed guests (planAll)', () =>
      fc.assert(
        fc.property(steps, (done) => {
          const index = new ElementIndex()
          for (const step of done) index.applied(plan(index, step))
          index.applied(index.planAll([one]))
          expect(index.planAll([one])).to.deep.equal(noChange)
          expect(index.planAttach(one)).to.deep.equal(indexOf(one).planAttach(one))
        }),
      ))

    it('is the same as a plan from freshly read tables', () =>
      fc.assert(
        fc.property(steps, (done) => {
          const index = new ElementIndex()
          const elements = new Map<ElementId, string>()
          for (const step of done) {
            const change = plan(index, step)
            const read = new ElementIndex({ elements, firewalls: new Map() })
            const planned = plan(read, step)
            expect([...change.remove].sort()).to.deep.equal([...planned.remove].sort())
            for (const [id, value] of planned.add)
              if (elements.get(id) !== value) expect(change.add.get(id)).to.equal(value)
            index.applied(change)
            for (const id of change.remove) elements.delete(id)
            for (const [id, value] of change.add) elements.set(id, value)
          }
        }),
      ))
  })
})
