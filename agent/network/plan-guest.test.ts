import { expect } from 'chai'
import fc from 'fast-check'
import { BerthError } from '../../shared/errors.js'
import type { GuestNetwork } from './contract.js'
import { ElementIndex } from './element-index.js'
import { planChange, planGuest, type ElementChange } from './plan-guest.js'

const guest = (
  id: number,
  ipv4: string,
  ports: [host: number, container: number][] = [],
  mac = `02:be:00:00:00:0${id}`,
): GuestNetwork => ({
  uuid: `uuid-${id}`,
  device: `bt${id}`,
  mac,
  ipv4,
  portMappings: ports.map(([hostPort, containerPort]) => ({ protocol: 'tcp', hostPort, containerPort })),
})

const one = guest(1, '10.64.0.2', [[20001, 22]])
const element = '"bt1" . 02:be:00:00:00:01 . 10.64.0.2'
const nothing: ElementChange = { removeGuests: [], removePorts: [], addGuests: [], addPorts: new Map() }
const port = (key: number, target: string): [string, string] => [`6 . ${key}`, target]

/** The index after these guests were attached one by one. */
function indexOf(...guests: GuestNetwork[]): ElementIndex {
  const index = new ElementIndex()
  for (const each of guests) index.applied(index.planAttach(each))
  return index
}

describe('elements of a guest', () => {
  it('are its port, mac and address, and its mappings', () => {
    const mappings = [...one.portMappings, { protocol: 'udp', hostPort: 20002, containerPort: 53 } as const]
    expect(planGuest({ ...one, portMappings: mappings })).to.deep.equal({
      guests: [element],
      ports: new Map([
        ['6 . 20001', '10.64.0.2 . 22'],
        ['17 . 20002', '10.64.0.2 . 53'],
      ]),
    })
  })

  const hostile = [
    'bt1"; flush ruleset; #',
    'bt1\nflush ruleset',
    '',
    'bt 1',
    '10.64.0.2/8',
    '10.64.0.256',
    '010.64.0.2',
    '02:be:00:00:00',
    '*',
  ]
  for (const field of ['device', 'mac', 'ipv4'] as const)
    for (const value of hostile)
      it(`refuse ${field} ${JSON.stringify(value)}`, () => {
        expect(() => planGuest({ ...one, [field]: value })).to.throw(BerthError)
      })

  it('refuse ports that are none', () => {
    for (const bad of [0, -1, 65536, 1.5, NaN, Infinity, '22; flush ruleset' as unknown as number]) {
      expect(() => planGuest(guest(1, '10.64.0.2', [[bad, 22]]))).to.throw(BerthError)
      expect(() => planGuest(guest(1, '10.64.0.2', [[20001, bad]]))).to.throw(BerthError)
    }
  })

  it('never hold anything but planned text', () => {
    fc.assert(
      fc.property(fc.string(), fc.string(), fc.string(), (device, mac, ipv4) => {
        expect(() => planGuest({ ...one, device, mac, ipv4 })).to.throw(BerthError)
      }),
    )
  })
})

describe('change of elements', () => {
  for (const [name, have, want, change] of [
    ['a new guest', [], one, { addGuests: [element], addPorts: new Map([port(20001, '10.64.0.2 . 22')]) }],
    [
      'a guest that is there is added again: nft takes what is there',
      [one],
      one,
      { addGuests: [element], addPorts: new Map([port(20001, '10.64.0.2 . 22')]) },
    ],
    [
      'other mappings',
      [one],
      guest(1, '10.64.0.2', [[20009, 80]]),
      {
        removePorts: ['6 . 20001'],
        addGuests: [element],
        addPorts: new Map([port(20009, '10.64.0.2 . 80')]),
      },
    ],
    [
      'the same port, another target',
      [one],
      guest(1, '10.64.0.2', [[20001, 80]]),
      {
        removePorts: ['6 . 20001'],
        addGuests: [element],
        addPorts: new Map([port(20001, '10.64.0.2 . 80')]),
      },
    ],
    [
      'another address of the same device',
      [one],
      guest(1, '10.64.0.3'),
      {
        removeGuests: [element],
        removePorts: ['6 . 20001'],
        addGuests: ['"bt1" . 02:be:00:00:00:01 . 10.64.0.3'],
      },
    ],
    [
      'an address whose earlier guest was never detached',
      [one],
      guest(2, '10.64.0.2'),
      {
        removeGuests: [element],
        removePorts: ['6 . 20001'],
        addGuests: ['"bt2" . 02:be:00:00:00:02 . 10.64.0.2'],
      },
    ],
    [
      'a port whose earlier guest was never detached',
      [one],
      guest(2, '10.64.0.3', [[20001, 22]]),
      {
        removePorts: ['6 . 20001'],
        addGuests: ['"bt2" . 02:be:00:00:00:02 . 10.64.0.3'],
        addPorts: new Map([port(20001, '10.64.0.3 . 22')]),
      },
    ],
  ] as [string, GuestNetwork[], GuestNetwork, Partial<ElementChange>][])
    it(`attach: ${name}`, () => {
      expect(indexOf(...have).planAttach(want)).to.deep.equal({ ...nothing, ...change })
    })

  it('detach: all of the guest, nothing of others', () => {
    const index = indexOf(one, guest(2, '10.64.0.3', [[20002, 22]]))
    expect(index.planDetach(one)).to.deep.equal({
      ...nothing,
      removeGuests: [element],
      removePorts: ['6 . 20001'],
    })
  })

  it('detach: nothing where nothing is left', () => {
    const index = indexOf(one)
    index.applied(index.planDetach(one))
    expect(index.planDetach(one)).to.deep.equal(nothing)
    expect(index.planAll([])).to.deep.equal(nothing)
  })

  it("detach: not what is mapped to the address's next owner", () => {
    const index = indexOf(one, guest(2, '10.64.0.2', [[20002, 22]]))
    expect(index.planDetach(one)).to.deep.equal(nothing)
  })

  it('all: nothing when it is right, else exactly the difference', () => {
    const two = guest(2, '10.64.0.3', [[20002, 22]])
    const index = indexOf(one, two)
    expect(index.planAll([two, one])).to.deep.equal(nothing)
    const change = index.planAll([guest(2, '10.64.0.3', [[20002, 80]])])
    expect(change).to.deep.equal({
      removeGuests: [element],
      removePorts: ['6 . 20001', '6 . 20002'],
      addGuests: [],
      addPorts: new Map([port(20002, '10.64.0.3 . 80')]),
    })
  })

  it('all: whatever was attached and detached before, ends at what is wanted', () => {
    const anyGuest = fc
      .record({
        id: fc.integer({ min: 1, max: 5 }),
        host: fc.integer({ min: 2, max: 5 }),
        ports: fc.uniqueArray(fc.integer({ min: 20000, max: 20004 })),
      })
      .map(({ id, host, ports }) =>
        guest(
          id,
          `10.64.0.${host}`,
          ports.map((p) => [p, 22]),
        ),
      )
    const steps = fc.array(fc.tuple(fc.boolean(), anyGuest), { maxLength: 20 })
    fc.assert(
      fc.property(steps, (done) => {
        const index = new ElementIndex()
        for (const [on, each] of done) index.applied(on ? index.planAttach(each) : index.planDetach(each))
        index.applied(index.planAll([one]))
        expect(index.planAll([one])).to.deep.equal(nothing)
        expect(index.planAttach(one)).to.deep.equal(indexOf(one).planAttach(one))
      }),
    )
  })

  it('becomes commands of one transaction, removals first', () => {
    const change: ElementChange = {
      removeGuests: ['"bt1" . 02:be:00:00:00:01 . 10.64.0.2'],
      removePorts: ['6 . 20001', '6 . 20002'],
      addGuests: ['"bt2" . 02:be:00:00:00:02 . 10.64.0.2'],
      addPorts: new Map([port(20001, '10.64.0.2 . 22')]),
    }
    expect(planChange('berth', change)).to.deep.equal([
      'delete element bridge berth guests { "bt1" . 02:be:00:00:00:01 . 10.64.0.2 }',
      'delete element ip berth ports { 6 . 20001, 6 . 20002 }',
      'add element bridge berth guests { "bt2" . 02:be:00:00:00:02 . 10.64.0.2 }',
      'add element ip berth ports { 6 . 20001 : 10.64.0.2 . 22 }',
    ])
    expect(planChange('berth', nothing)).to.deep.equal([])
  })
})
