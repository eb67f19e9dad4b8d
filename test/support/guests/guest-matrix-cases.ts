import { expect } from 'chai'
import type { BootChoice } from '../../../agent/guests/record/record.js'
import type { StepEvent } from '../../../agent/operations/types.js'
import type { GuestAction, GuestBefore } from './matrix-orders.js'
import type { MatrixOptions } from '../operations/operation-matrix.js'

type CaseOptions = 'steps' | 'forwardOnly' | 'tried' | 'undone' | 'undoneFrom' | 'earlyFailure' | 'checkFailed'

export interface MatrixCase extends Pick<MatrixOptions, CaseOptions> {
  action: GuestAction
  before: GuestBefore
}

export function titleOf({ action, before }: Pick<MatrixCase, 'action' | 'before'>): string {
  if (before === 'absent') return `the operation "${action}" for a new guest`
  return `the operation "${action}" on a ${before === 'rescued' ? 'guest in rescue mode' : `${before} guest`}`
}

const boot = ['configure', 'start']

/** Operations on a guest and on its power. */
export const powerCases: readonly MatrixCase[] = [
  {
    action: 'create',
    before: 'absent',
    steps: ['disk', ...boot],
    undone: ['disk', 'configure', 'start'],
  },
  { action: 'start', before: 'stopped', steps: [...boot], undone: ['start'] },
  { action: 'stop', before: 'running', steps: ['stop'], undone: [], checkFailed: isConsistent },
  {
    action: 'restart',
    before: 'running',
    steps: ['stop', ...boot],
    undone: ['start'],
    checkFailed: isStillWanted,
  },
  {
    action: 'resetPassword',
    before: 'running',
    steps: ['password'],
    undone: [],
    checkFailed: isWhole,
  },
  { action: 'resetPassword', before: 'stopped', steps: ['password'], undone: [], checkFailed: isWhole },
  { action: 'delete', before: 'running', steps: ['stop', 'remove'], undone: [], forwardOnly: true },
]

export const diskCases: readonly MatrixCase[] = [
  ...(['running', 'stopped'] as const).map((before): MatrixCase => ({
    action: 'reinstall',
    before,
    steps: ['image', 'disk', 'stop', 'keep', 'exchange', ...boot, 'commit'],
    undone: ['disk', 'stop', 'keep', 'exchange', 'start'],
    undoneFrom: 'start',
    earlyFailure: 'stop',
    checkFailed: isOldOrCommitted,
    // Steps that do not differ between running and stopped guests are only tested with a running guest.
    ...(before === 'stopped' && { tried: ['stop', 'exchange', 'start', 'commit'] }),
  })),
  {
    action: 'snapshotRestore',
    before: 'running',
    steps: ['prepare', 'stop', 'keep', 'exchange', ...boot, 'forget'],
    undone: ['prepare', 'stop', 'keep', 'exchange', 'start'],
    undoneFrom: 'start',
    earlyFailure: 'stop',
    checkFailed: isOldOrRestored,
  },
]

/** Operations on the boot source of a guest: to a rescue system, and back to the disk. */
export const bootCases: readonly MatrixCase[] = [
  ...(['running', 'rescued'] as const).map((before): MatrixCase => ({
    action: 'changeBoot',
    before,
    steps: ['image', 'rescue', 'stop', 'mode', ...boot, 'commit'],
    undone: ['rescue', 'stop', 'mode', 'start'],
    undoneFrom: 'start',
    earlyFailure: 'stop',
    checkFailed: isOldBootOrCommitted,
    // For the way back from the rescue system, only these steps are tested. The others do not depend on the direction.
    ...(before === 'rescued' && { tried: ['rescue', 'mode', 'start', 'commit'] }),
  })),
  { action: 'delete', before: 'rescued', steps: ['stop', 'remove'], undone: [], forwardOnly: true },
]

/** Checks that the guest's desired state is `running`. The guest itself may be stopped until the next comparison. */
function isStillWanted(after: unknown): void {
  const { guests } = after as { guests: { status: string; wanted: string }[] }
  expect(guests.map(({ status }) => status)).to.be.deep.oneOf([['running'], ['stopped']])
  expect(guests.map(({ wanted }) => wanted)).to.deep.equal(['running'])
}

/** Checks that a failure leaves the guest unchanged, except for the new password if the step had completed its run. */
function isWhole(after: unknown, before: unknown, { phase }: Pick<StepEvent, 'phase'>): void {
  if (phase === 'before-run') return void expect(after).to.deep.equal(before)
  const [row] = (after as { guests: object[] }).guests
  expect(row).to.deep.equal({ ...(before as { guests: object[] }).guests[0], password: 'new' })
}

/** Checks that a failure restores the old disk. Only a failure after the step `commit` keeps the new disk. */
function isOldOrCommitted(after: unknown, before: unknown, at: Pick<StepEvent, 'step' | 'phase'>): void {
  if (at.step !== 'commit' || at.phase !== 'after-run') return void expect(after).to.deep.equal(before)
  const [old] = (before as { guests: { journaled: string }[] }).guests
  const template = old!.journaled.replace('debian-12', 'debian-13')
  const changed = { journaled: template, template, password: 'new', passwordHolds: true }
  expect((after as { guests: object[] }).guests[0]).to.deep.equal({ ...old, ...changed })
}

/** Checks that a failure restores the old disk. Only a failure after the step `forget` keeps the new disk. */
function isOldOrRestored(after: unknown, before: unknown, at: Pick<StepEvent, 'step' | 'phase'>): void {
  if (at.step !== 'forget' || at.phase !== 'after-run') return void expect(after).to.deep.equal(before)
  const [old] = (before as { guests: { journaled: string }[] }).guests
  const restored = { ...old, template: old!.journaled }
  expect((after as { guests: object[] }).guests[0]).to.deep.equal(restored)
}

/** Checks that a failure restores the old boot source. A failure after the step `commit` keeps the new source. */
function isOldBootOrCommitted(after: unknown, before: unknown, at: Pick<StepEvent, 'step' | 'phase'>): void {
  if (at.step !== 'commit' || at.phase !== 'after-run') return void expect(after).to.deep.equal(before)
  const [was, is] = [before, after].map((found) => (found as { guests: { boot: BootChoice }[] }).guests[0]!)
  const changed: BootChoice =
    was!.boot.mode === 'rescue' ? { mode: 'disk', image: '' } : { mode: 'rescue', image: 'debian-12' }
  expect(is).to.deep.equal({ ...was, boot: changed })
}

/** Checks that the guest's state equals its desired state. Both may be `stopped`, because a stop is not undone. */
function isConsistent(after: unknown): void {
  const { guests } = after as { guests: { status: string; wanted: string }[] }
  expect(guests.map(({ status }) => status)).to.be.deep.oneOf([['running'], ['stopped']])
  expect(guests.map(({ wanted }) => wanted)).to.deep.equal(guests.map(({ status }) => status))
}
