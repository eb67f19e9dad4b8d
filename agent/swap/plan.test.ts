import { expect } from 'chai'
import { BerthError } from '../../shared/errors.js'
import { checkRelease, checkSpace, currentOf, planSwapChange, type SwapChange } from './plan.js'
import type { SwapAction } from '../../shared/swap-rules.js'
import type { SwapSlot, SwapFile } from './contract.js'

const mib = 1024 ** 2
const gib = 1024 * mib

function file(slot: SwapSlot, mb: number, state: 'active' | 'kept' | 'both' | 'idle' = 'both'): SwapFile {
  const [active, kept] = [state === 'active' || state === 'both', state === 'kept' || state === 'both']
  return { slot, path: `/s${slot}`, sizeBytes: mb * mib, active, kept, usedBytes: 0 }
}

const setting = (slot: SwapSlot, mb: number, enabled: boolean) => ({ slot, sizeBytes: mb * mib, enabled })

function codeOf(work: () => unknown): string {
  try {
    work()
    return 'ok'
  } catch (error) {
    return error instanceof BerthError ? error.code : String(error)
  }
}

describe('planChange', () => {
  const cases: [string, SwapAction, number, SwapFile[], SwapChange | 'invalid_state'][] = [
    ['creates the first', 'create', 64, [], { from: null, to: setting(0, 64, true) }],
    ['creates the first by a resize', 'resize', 64, [], { from: null, to: setting(0, 64, true) }],
    ['nothing to enable', 'enable', 0, [], 'invalid_state'],
    ['nothing to disable', 'disable', 0, [], 'invalid_state'],
    ['does not create a second one', 'create', 64, [file(0, 64)], 'invalid_state'],
    ['does not create a second one next to an inactive one', 'create', 64, [file(0, 64, 'idle')], 'invalid_state'],
    ['moves', 'resize', 128, [file(0, 64)], { from: setting(0, 64, true), to: setting(1, 128, true) }],
    ['moves back', 'resize', 64, [file(1, 128)], { from: setting(1, 128, true), to: setting(0, 64, true) }],
    ['keeps the size', 'resize', 64, [file(0, 64)], { from: setting(0, 64, true), to: setting(0, 64, true) }],
    [
      'stays inactive',
      ...(['resize', 128, [file(0, 64, 'idle')]] as const),
      { from: setting(0, 64, false), to: setting(1, 128, false) },
    ],
    ['enables', 'enable', 0, [file(1, 64, 'idle')], { from: setting(1, 64, false), to: setting(1, 64, true) }],
    ['stays enabled', 'enable', 0, [file(1, 64)], { from: setting(1, 64, true), to: setting(1, 64, true) }],
    ['nothing to delete', 'delete', 0, [], 'invalid_state'],
    [
      'deletes',
      'delete',
      0,
      [file(1, 64)],
      { from: setting(1, 64, true), to: { ...setting(1, 64, false), removed: true } },
    ],
    ['disables', 'disable', 0, [file(0, 64)], { from: setting(0, 64, true), to: setting(0, 64, false) }],
  ].map((row) => row as [string, SwapAction, number, SwapFile[], SwapChange | 'invalid_state'])
  for (const [name, action, mb, files, expected] of cases)
    it(name, () => {
      const plan = (): SwapChange => planSwapChange({ action, sizeBytes: mb * mib }, { files })
      if (expected === 'invalid_state') expect(codeOf(plan)).to.equal(expected)
      else expect(plan()).to.deep.equal(expected)
    })
})

describe('currentOf', () => {
  for (const [name, files, slot] of [
    ['none', [], undefined],
    ['the active one', [file(0, 128, 'idle'), file(1, 64, 'active')], 1],
    ['active before recorded', [file(0, 128, 'kept'), file(1, 64, 'active')], 1],
    ['the recorded one of two active ones', [file(0, 64, 'both'), file(1, 128, 'active')], 0],
    ['the one that a boot activates', [file(0, 128, 'idle'), file(1, 64, 'kept')], 1],
    ['the larger of equal ones', [file(0, 64), file(1, 128)], 1],
  ] as const)
    it(name, () => expect(currentOf({ files })?.slot).to.equal(slot))
})

describe('checkRelease', () => {
  const memory = (availableMb: number) => ({ totalBytes: 4 * gib, availableBytes: availableMb * mib })
  for (const [name, usedMb, otherFreeMb, availableMb, code] of [
    ['empty swap', 0, 0, 0, 'ok'],
    ['fits into memory', 700, 0, 1000, 'ok'],
    ['does not fit because of the reserve', 900, 0, 1000, 'memory_in_use'],
    ['fits into other swap', 900, 900, 0, 'ok'],
    ['fits into memory and other swap', 1200, 500, 1000, 'ok'],
    ['does not fit', 1600, 500, 1000, 'memory_in_use'],
  ] as const)
    it(name, () => {
      const use = { usedBytes: usedMb * mib, otherFreeBytes: otherFreeMb * mib }
      expect(codeOf(() => checkRelease(use, memory(availableMb)))).to.equal(code)
    })
})

describe('checkSpace', () => {
  for (const [name, freeMb, mb, code] of [
    ['fits', 10_000, 8900, 'ok'],
    ['leaves a reserve', 10_000, 9100, 'resource_exhausted'],
    ['full', 0, 64, 'resource_exhausted'],
  ] as const)
    it(name, () => {
      const totalBytes = 50 * gib
      const room = { totalBytes, usedBytes: totalBytes - freeMb * mib }
      expect(codeOf(() => checkSpace(room, mb * mib))).to.equal(code)
    })
})
