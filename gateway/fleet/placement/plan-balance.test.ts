import { expect } from 'chai'
import { Guest } from '../../../proto/gen/berth/agent/v1/guest.js'
import { HostDescription } from '../../../proto/gen/berth/agent/v1/host.js'
import { conflict } from '../../../shared/errors.js'
import type { GuestView } from '../contract.js'
import { HostState } from '../host-state.js'
import { planBalance } from './plan-balance.js'
import type { Candidate } from './plan-placement.js'
import type { PlacedGuest } from './plan-rules.js'
import { noPlacement } from '../../../shared/placement-rules.js'

const ratios = { cpu: 1, ram: 1, disk: 1 }
const record = { version: 1, address: 'a:1', draining: false, createdAtMs: 0, serials: [], certificateNotAfterMs: 0 }

/** A guest on a host. The number is its memory in percent of the memory of each host. */
type GuestTuple = readonly [hostId: string, uuid: string, ram: number, placement?: object, more?: Partial<Guest>]

function guestOf([hostId, uuid, ramMb, placement, more]: GuestTuple): GuestView {
  const limits = { vcpuMilli: 0, ramMb, diskGb: 0 }
  const rules = placement && { placement }
  const guest = Guest.fromPartial({ uuid, name: uuid, virtualization: 'lxc', limits, ...rules, ...more })
  return { hostId, guest, online: true, hostAddress: '', maintenance: undefined }
}

function hostOf(id: string, guests: readonly GuestTuple[]): Candidate {
  const state = new HostState({ ...record, id, name: id, ...(id === 'a' && { group: 'eu' }) })
  state.online = true
  state.description = HostDescription.fromPartial({
    features: ['move', 'placement'],
    capabilities: { lxc: true },
    capacity: { cpuCores: 100, ramTotalMb: 100, diskTotalGb: 100 },
  })
  const ramMb = guests.filter(([hostId]) => hostId === id).reduce((sum, [, , ram]) => sum + ram, 0)
  return { host: state.view, findTemplate: () => undefined, allocated: { vcpuMilli: 0, ramMb, diskGb: 0 } }
}

function suggest(
  guests: readonly GuestTuple[],
  refused: readonly string[] = [],
  reserved: readonly PlacedGuest[] = [],
): string[] {
  const suggestions = planBalance({
    candidates: ['a', 'b', 'c'].map((id) => hostOf(id, guests)),
    guests: guests.map(guestOf),
    reserved,
    ratios,
    refuse: ({ guest }) => {
      if (refused.includes(guest.uuid)) throw conflict('invalid_state', 'it is busy')
    },
  })
  return suggestions.map(({ guest, toHostId, reason, code }) =>
    [guest.guest.uuid, toHostId || '-', code || reason].join(' '),
  )
}

describe('the suggestions that balance the fleet', () => {
  for (const [name, guests, refused, expected] of [
    [
      'are empty if all hosts have the same load',
      [
        ['a', 'x', 20],
        ['b', 'y', 20],
        ['c', 'z', 20],
      ],
      [],
      [],
    ],
    [
      'are empty if a move would gain too little',
      [
        ['a', 'x', 3],
        ['a', 'y', 3],
      ],
      [],
      [],
    ],
    ['are empty if a move would only shift the load to another host', [['a', 'x', 80]], [], []],
    [
      'relieve the most loaded host',
      [
        ['a', 'x', 40],
        ['a', 'y', 40],
        ['b', 'z', 30],
      ],
      [],
      ['x c load'],
    ],
    [
      'contain the next guest of the most loaded host if the first guest is not allowed to move',
      [
        ['a', 'x', 40],
        ['a', 'y', 40],
        ['b', 'z', 30],
      ],
      ['x'],
      ['y c load'],
    ],
    [
      'never break a rule, however uneven the load is',
      [
        ['a', 'x', 40, { group: 'eu' }],
        ['a', 'y', 40, { group: 'eu' }],
      ],
      [],
      [],
    ],
    ['contain a move that fulfills a broken rule', [['b', 'x', 10, { group: 'eu' }]], [], ['x a placement_group']],
    [
      'separate guests that must be on different hosts',
      [
        ['a', 'x', 1, { spread: 's' }],
        ['a', 'y', 1, { spread: 's' }],
      ],
      [],
      ['x b placement_spread'],
    ],
    ['name a broken rule that no move can fulfill', [['b', 'x', 1, { group: 'us' }]], [], ['x - placement_group']],
    [
      'name a broken rule of a guest that cannot move',
      [['b', 'x', 1, { group: 'eu' }]],
      ['x'],
      ['x - placement_group'],
    ],
    [
      'relieve the host with the second highest load if no guest of the most loaded host can move',
      [
        ['a', 'x', 45],
        ['a', 'y', 45],
        ['b', 'z', 30],
        ['b', 'w', 30],
      ],
      ['x', 'y'],
      ['z c load'],
    ],
    [
      'move guests that must stay together to the host that already has most of them',
      [
        ['a', 'x', 1, { together: 't' }],
        ['b', 'y', 1, { together: 't' }],
        ['b', 'z', 1, { together: 't' }],
      ],
      [],
      ['x b placement_together'],
    ],
    [
      'move guests that must stay together to one host if two hosts have the same number of these guests',
      [
        ['a', 'w', 1, { together: 't' }],
        ['a', 'x', 1, { together: 't' }],
        ['b', 'y', 1, { together: 't' }],
        ['b', 'z', 1, { together: 't' }],
      ],
      [],
      ['w b placement_together', 'x b placement_together'],
    ],
    [
      'never separate guests that must stay together, however uneven the load is',
      [
        ['a', 'x', 40, { together: 't' }],
        ['a', 'y', 40, { together: 't' }],
      ],
      [],
      [],
    ],
    [
      'omit a guest that cannot move if the move of another guest fulfills the broken rule',
      [
        ['a', 'x', 1, { spread: 's' }],
        ['a', 'y', 1, { spread: 's' }],
      ],
      ['x'],
      ['y b placement_spread'],
    ],
    [
      'list guests that can move before guests that cannot move',
      [...Array.from({ length: 20 }, (_, n) => ['b', `x${n}`, 0, { group: 'us' }]), ['b', 'y', 1, { group: 'eu' }]],
      [],
      ['y a placement_group', ...Array.from({ length: 19 }, (_, n) => `x${n} - placement_group`)],
    ],
    [
      'contain a guest that can move after 200 guests that are not allowed to move',
      [...Array.from({ length: 200 }, (_, n) => ['b', `x${n}`, 0, { group: 'eu' }]), ['b', 'y', 1, { group: 'eu' }]],
      Array.from({ length: 200 }, (_, n) => `x${n}`),
      ['y a placement_group', ...Array.from({ length: 19 }, (_, n) => `x${n} - placement_group`)],
    ],
    [
      'ignore the rules of deleted guests',
      [
        ['a', 'x', 1, { spread: 's' }, { deletion: { sinceMs: 1, untilMs: 2 } }],
        ['a', 'y', 1, { spread: 's' }],
      ],
      [],
      [],
    ],
  ] as readonly (readonly [string, readonly GuestTuple[], readonly string[], readonly string[]])[])
    it(name, () => expect(suggest(guests, refused)).to.deep.equal(expected))

  it('omit guests that are already moving, and count these guests on their targets', () => {
    const web = { ...noPlacement, spread: 's' }
    const guests: GuestTuple[] = [
      ['a', 'x', 1, web],
      ['a', 'y', 1, web],
      ['b', 'z', 1, web],
    ]
    const target = { uuid: 'x', rules: web, limits: undefined }
    expect(suggest(guests, [], [{ ...target, hostId: 'c' }])).to.deep.equal([])
    expect(suggest(guests, [], [{ ...target, hostId: 'b' }])).to.deep.equal(['z c placement_spread'])
  })

  it('contain the loads before and after the move', () => {
    const guests: GuestTuple[] = [
      ['a', 'x', 40],
      ['a', 'y', 40],
      ['b', 'z', 30],
    ]
    const candidates = ['a', 'b', 'c'].map((id) => hostOf(id, guests))
    const facts = { guests: guests.map(guestOf), reserved: [], ratios, refuse: () => undefined }
    const [first] = planBalance({ candidates, ...facts })
    expect(first).to.deep.include({ from: { before: 0.8, after: 0.4 }, to: { before: 0, after: 0.4 } })
  })
})
