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
    ['is to wait while the source copies the guest', move, {}, 'wait'],
    ['is to change the owner as soon as the source has handed the guest over', move, { source: handedOver }, 'switch'],
    ['is to cancel the move if the target went offline', move, { source: handedOver, isTargetOnline: false }, 'cancel'],
    [
      'is to wait if the source has handed the guest over in a different move',
      move,
      { source: { ...handedOver, moveId: 'x' } },
      'wait',
    ],
    ['is to cancel the move if its operation has failed', move, { operation: 'failed' }, 'cancel'],
    [
      'is to cancel the move if the source never received the request to move the guest',
      move,
      { operation: undefined, nowMs: 120_001 },
      'cancel',
    ],
    ['is to wait while the source is offline', move, { ...offline, operation: undefined, nowMs: 120_001 }, 'wait'],
    [
      'is to cancel the move if the source was removed',
      move,
      { ...offline, operation: undefined, isSourceRemoved: true },
      'cancel',
    ],
    ['is to notify the source and the target as soon as the owner has changed', switched, {}, 'announce'],
  ] as const)
    it(name, () => expect(planMoveStep(stored, { ...facts, ...change })).to.equal(step))
})

describe('the next step of a move after the guest’s new owner (a host) was notified', () => {
  for (const [name, stored, hasOwner, change, step] of [
    ['is to tell the source to delete its copy if the target has the guest', switched, true, {}, 'tell'],
    [
      'is to return the guest to the source if the target does not have the guest',
      switched,
      false,
      { source: handedOver },
      'return',
    ],
    ['is to wait for an offline source if the target does not have the guest', switched, false, offline, 'wait'],
    ['is to forget the move if neither host has the guest', switched, false, { source: undefined }, 'forget'],
    [
      'is to forget the move if the source was removed and the target does not have the guest',
      switched,
      false,
      { ...offline, isSourceRemoved: true },
      'forget',
    ],
    [
      'is to forget the move if the source is deleting its copy and the target does not have the guest',
      switched,
      false,
      { source: { role: 'absent', moveId: '' } },
      'forget',
    ],
    [
      'is to tell the target to delete its copy after a cancellation, even if the source no longer reports the guest',
      canceled,
      false,
      { source: undefined },
      'tell',
    ],
  ] as const)
    it(name, () => expect(planAnnounced(stored, hasOwner, { ...facts, ...change })).to.equal(step))
})
