import { expect } from 'chai'
import type { GuestView } from '../contract.js'
import { isUnknown, planMoved, type MovedFacts } from './plan-moved-standby.js'

const stored = { standbyId: 's1', hostId: 'b', fromHostId: 'a', intervalMinutes: 10, bandwidthMbps: 7 }
const usual = { uuid: 'u1', virtualization: 'lxc', status: 'running', ownership: { role: 'owner' } }
const on = (hostId: string, guest: object = {}, online = true): GuestView =>
  ({ hostId, online, guest: { ...usual, ...guest } }) as unknown as GuestView
const former = { name: 'a', draining: false, maintenance: [], description: { features: ['standby'] } }
const ended = (reason: string) => ({ kind: 'end', reason })
const windowOf = (state: string) => ({ former: { ...former, maintenance: [{ state }] } })

describe('the standby of a guest', () => {
  for (const [name, view, change, expected] of [
    ['stays if the guest has it', on('a', { standby: { standbyId: 's1', hostId: 'b' } }), {}, { kind: 'none' }],
    ['stays on its host if the guest moved to a third host', on('c'), {}, { kind: 'set', hostId: 'b' }],
    [
      'stays on its host if this host is draining',
      on('c'),
      { former: { ...former, draining: true } },
      { kind: 'set', hostId: 'b' },
    ],
    ['is set on the former host if the guest moved to its host', on('b'), {}, { kind: 'set', hostId: 'a' }],
    ['is set again if the guest has returned to its host', on('a'), {}, { kind: 'set', hostId: 'b' }],
    [
      'is set again if the new host reports another one',
      on('c', { standby: { standbyId: 's2', hostId: 'b' } }),
      {},
      { kind: 'set', hostId: 'b' },
    ],
    [
      'is not set while an administrator replaces it on the same host',
      on('a', { standby: { standbyId: 's2', hostId: 'c' } }),
      {},
      { kind: 'none' },
    ],
    ['waits for the end of the move', on('c'), { isRelocating: true }, { kind: 'wait' }],
    ['waits until the former host has deleted the guest', on('b'), { formerRole: 'handed_over' }, { kind: 'wait' }],
    ['does not wait for a third host', on('c'), { formerRole: 'handed_over' }, { kind: 'set', hostId: 'b' }],
    ['does not wait for a fenced copy', on('b'), { formerRole: 'fenced' }, { kind: 'set', hostId: 'a' }],
    ['stays recorded while the new host is offline', on('c', {}, false), {}, { kind: 'none' }],
    [
      'stays recorded while the guest is marked as deleted',
      on('c', { deletion: { sinceMs: 1 } }),
      {},
      { kind: 'none' },
    ],
    ['stays recorded while the guest is created', on('c', { status: 'creating' }), {}, { kind: 'none' }],
    [
      'stays recorded until the new host owns the guest',
      on('c', { ownership: { role: 'arriving' } }),
      {},
      { kind: 'none' },
    ],
    [
      'ends if the former host is draining',
      on('b'),
      { former: { ...former, draining: true } },
      ended('host a is draining'),
    ],
    ['ends if the former host is in maintenance', on('b'), windowOf('active'), ended('host a is in maintenance')],
    [
      'is set on a former host with announced maintenance',
      on('b'),
      windowOf('announced'),
      { kind: 'set', hostId: 'a' },
    ],
    [
      'ends if the agent of the former host is too old',
      on('b'),
      { former: { ...former, description: { features: [] } } },
      ended('the agent of host a is too old'),
    ],
    [
      'ends if the former host was removed',
      on('b'),
      { former: undefined },
      ended('the former host of the container was removed'),
    ],
    [
      'is set on a former host whose features are not known yet',
      on('b'),
      { former: { ...former, description: undefined } },
      { kind: 'set', hostId: 'a' },
    ],
  ] as const)
    it(name, () => {
      const facts = { stored, isRelocating: false, former, formerRole: undefined, ...change } as unknown as MovedFacts
      expect(planMoved(view, facts)).to.deep.equal(expected)
    })
})

describe('a standby that a guest reports', () => {
  const reported = { standby: { standbyId: 's1', hostId: 'b' } }
  for (const [name, view, record, expected] of [
    ['is unknown if the store has none', on('a', reported), undefined, true],
    ['is unknown if the store has another one', on('a', reported), { ...stored, standbyId: 's2' }, true],
    ['is known if the store has it', on('a', reported), stored, false],
    ['counts as known after a move', on('c', reported), stored, false],
    ['counts as known if the guest has none', on('a'), undefined, false],
  ] as const)
    it(name, () => expect(isUnknown(view, record)).to.equal(expected))
})
