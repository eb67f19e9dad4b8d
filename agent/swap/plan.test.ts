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

describe('the plan of a change of the swap file', () => {
  const cases: [string, SwapAction, number, SwapFile[], SwapChange | 'invalid_state'][] = [
    ['create a first file', 'create', 64, [], { from: null, to: setting(0, 64, true) }],
    ['create a first file if a resize finds no file', 'resize', 64, [], { from: null, to: setting(0, 64, true) }],
    ['enable a missing file', 'enable', 0, [], 'invalid_state'],
    ['disable a missing file', 'disable', 0, [], 'invalid_state'],
    ['create a second file if the first file is active', 'create', 64, [file(0, 64)], 'invalid_state'],
    ['create a second file if the first file is inactive', 'create', 64, [file(0, 64, 'idle')], 'invalid_state'],
    [
      'resize a file by creating a new file in the other slot',
      'resize',
      128,
      [file(0, 64)],
      { from: setting(0, 64, true), to: setting(1, 128, true) },
    ],
    [
      'resize a file in the second slot by creating a new file in the first slot',
      'resize',
      64,
      [file(1, 128)],
      { from: setting(1, 128, true), to: setting(0, 64, true) },
    ],
    [
      'keep the file if it is resized to its present size',
      'resize',
      64,
      [file(0, 64)],
      { from: setting(0, 64, true), to: setting(0, 64, true) },
    ],
    [
      'keep an inactive file inactive if it is resized',
      ...(['resize', 128, [file(0, 64, 'idle')]] as const),
      { from: setting(0, 64, false), to: setting(1, 128, false) },
    ],
    [
      'enable an inactive file',
      'enable',
      0,
      [file(1, 64, 'idle')],
      { from: setting(1, 64, false), to: setting(1, 64, true) },
    ],
    [
      'keep an active file active if it is enabled again',
      'enable',
      0,
      [file(1, 64)],
      { from: setting(1, 64, true), to: setting(1, 64, true) },
    ],
    ['delete a missing file', 'delete', 0, [], 'invalid_state'],
    [
      'delete a file',
      'delete',
      0,
      [file(1, 64)],
      { from: setting(1, 64, true), to: { ...setting(1, 64, false), removed: true } },
    ],
    ['disable an active file', 'disable', 0, [file(0, 64)], { from: setting(0, 64, true), to: setting(0, 64, false) }],
  ].map((row) => row as [string, SwapAction, number, SwapFile[], SwapChange | 'invalid_state'])
  for (const [name, action, mb, files, expected] of cases)
    it(`${expected === 'invalid_state' ? 'refuses' : 'contains the steps'} to ${name}`, () => {
      const plan = (): SwapChange => planSwapChange({ action, sizeBytes: mb * mib }, { files })
      if (expected === 'invalid_state') expect(codeOf(plan)).to.equal(expected)
      else expect(plan()).to.deep.equal(expected)
    })
})

describe('the current swap file of a host', () => {
  for (const [name, files, slot] of [
    ['is undefined if there are no files', [], undefined],
    ['is the active file', [file(0, 128, 'idle'), file(1, 64, 'active')], 1],
    [
      'is the active file, even if a boot would activate another file',
      [file(0, 128, 'kept'), file(1, 64, 'active')],
      1,
    ],
    [
      'is the file that a boot would activate if two files are active',
      [file(0, 64, 'both'), file(1, 128, 'active')],
      0,
    ],
    ['is the file that a boot would activate if no file is active', [file(0, 128, 'idle'), file(1, 64, 'kept')], 1],
    ['is the larger file if two files are active and a boot would activate both', [file(0, 64), file(1, 128)], 1],
  ] as const)
    it(name, () => expect(currentOf({ files })?.slot).to.equal(slot))
})

describe('the check whether a swap file can be removed', () => {
  const memory = (availableMb: number) => ({ totalBytes: 4 * gib, availableBytes: availableMb * mib })
  for (const [name, usedMb, otherFreeMb, availableMb, code] of [
    ['permits the removal of a swap file that is not used', 0, 0, 0, 'ok'],
    ['permits the removal if the content of the file fits into memory', 700, 0, 1000, 'ok'],
    ['refuses the removal if the content of the file would use reserved memory', 900, 0, 1000, 'memory_in_use'],
    ['permits the removal if the content of the file fits into other swap', 900, 900, 0, 'ok'],
    ['permits the removal if the content of the file fits into memory and other swap together', 1200, 500, 1000, 'ok'],
    [
      'refuses the removal if the content of the file does not fit into memory and other swap together',
      1600,
      500,
      1000,
      'memory_in_use',
    ],
  ] as const)
    it(name, () => {
      const use = { usedBytes: usedMb * mib, otherFreeBytes: otherFreeMb * mib }
      expect(codeOf(() => checkRelease(use, memory(availableMb)))).to.equal(code)
    })
})

describe('the check of the free disk space for a new swap file', () => {
  for (const [name, freeMb, mb, code] of [
    ['accepts a file that leaves the reserve free', 10_000, 8900, 'ok'],
    ['refuses a file that would use the reserve', 10_000, 9100, 'resource_exhausted'],
    ['refuses a file on a full disk', 0, 64, 'resource_exhausted'],
  ] as const)
    it(name, () => {
      const totalBytes = 50 * gib
      const room = { totalBytes, usedBytes: totalBytes - freeMb * mib }
      expect(codeOf(() => checkSpace(room, mb * mib))).to.equal(code)
    })
})
