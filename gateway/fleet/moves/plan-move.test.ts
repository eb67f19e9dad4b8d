import { expect } from 'chai'
import type { StoredMove } from './move-store.js'
import { planAnnounced, planMoveStep, type MoveFacts } from './plan-move.js'

const move: StoredMove = { id: 'm', uuid: 'u', fromHostId: 'a', toHostId: 'b', beganAtMs: 0 }
const switched: StoredMove = { ...move, decided: { ownerId: 'b', generation: 1 } }
const canceled: StoredMove = { ...move, decided: { ownerId: 'a', generation: 1 } }
const facts: MoveFacts = {
  source: { role: 'owner', moveId: '' },
  operation: 'running',
  isSourceOnline: true,
  isSourceRemoved: false,
  isTargetOnline: true,
  nowMs: 0,
}
const handedOver = { role: 'handed_over', moveId: 'm' }
const offline = { source: undefined, isSourceOnline: false }

describe('the next step of a move', () => {
  for (const [name, stored, change, step] of [
    ['waits while the source copies', move, {}, 'wait'],
    ['switches when the source has handed the guest over', move, { source: handedOver }, 'switch'],
    ['cancels when the target went offline', move, { source: handedOver, isTargetOnline: false }, 'cancel'],
    ['ignores the hand-over of another move', move, { source: { ...handedOver, moveId: 'x' } }, 'wait'],
    ['cancels when the operation failed', move, { operation: 'failed' }, 'cancel'],
    ['cancels when the order was lost', move, { operation: undefined, nowMs: 120_001 }, 'cancel'],
    ['waits for a source that is offline', move, { ...offline, operation: undefined, nowMs: 120_001 }, 'wait'],
    [
      'cancels when the source was removed',
      move,
      { ...offline, operation: undefined, isSourceRemoved: true },
      'cancel',
    ],
    ['announces a decision', switched, {}, 'announce'],
  ] as const)
    it(name, () => expect(planMoveStep(stored, { ...facts, ...change })).to.equal(step))
})

describe('the step after the owner was notified', () => {
  for (const [name, stored, hasOwner, change, step] of [
    ['tells the source to delete its copy when the target has the guest', switched, true, {}, 'tell'],
    ['returns the guest to the source when the target has none', switched, false, { source: handedOver }, 'return'],
    ['waits for an offline source when the target has no guest', switched, false, offline, 'wait'],
    ['forgets the move when neither host has the guest', switched, false, { source: undefined }, 'forget'],
    [
      'forgets the move when the source was removed, too',
      switched,
      false,
      { ...offline, isSourceRemoved: true },
      'forget',
    ],
    [
      'forgets the move when the source is deleting its copy',
      switched,
      false,
      { source: { role: 'absent', moveId: '' } },
      'forget',
    ],
    ['tells the target to delete its copy when the source was deleted', canceled, false, { source: undefined }, 'tell'],
  ] as const)
    it(name, () => expect(planAnnounced(stored, hasOwner, { ...facts, ...change })).to.equal(step))
})
