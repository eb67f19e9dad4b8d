import { expect } from 'chai'
import type { BootChoice } from '../../../agent/guests/record/record.js'
import type { StepEvent } from '../../../agent/operations/types.js'
import type { GuestAction, GuestBefore } from './matrix-orders.js'
import type { MatrixOptions } from '../operations/operation-matrix.js'

type CaseOptions = 'steps' | 'tried' | 'undone' | 'undoneFrom' | 'earlyFailure' | 'checkFailed'

export interface MatrixCase extends Pick<MatrixOptions, CaseOptions> {
  action: GuestAction
  before: GuestBefore
}

const boot = ['configure', 'start']

/** Operations on a guest and its power. */
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
  { action: 'delete', before: 'running', steps: ['remove'], undone: [] },
]

/** Operations on its disk. */
export const diskCases: readonly MatrixCase[] = [
  ...(['running', 'stopped'] as const).map((before): MatrixCase => ({
    action: 'reinstall',
    before,
    steps: ['image', 'disk', 'stop', 'keep', 'exchange', ...boot, 'commit'],
    undone: ['disk', 'stop', 'keep', 'exchange', 'start'],
    undoneFrom: 'start',
    earlyFailure: 'stop',
    checkFailed: isOldOrCommitted,
    // For a stopped guest the remaining steps are equal.
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

/** Operations on the boot source: a rescue system, and the disk again. */
export const bootCases: readonly MatrixCase[] = [
  ...(['running', 'rescued'] as const).map((before): MatrixCase => ({
    action: 'changeBoot',
    before,
    steps: ['image', 'rescue', 'stop', 'mode', ...boot, 'commit'],
    undone: ['rescue', 'stop', 'mode', 'start'],
    undoneFrom: 'start',
    earlyFailure: 'stop',
    checkFailed: isOldBootOrCommitted,
    // The way back differs only in the remains of a rescue system.
    ...(before === 'rescued' && { tried: ['rescue', 'mode', 'start', 'commit'] }),
  })),
  { action: 'delete', before: 'rescued', steps: ['remove'], undone: [] },
]

/** The comparison with the host retries a failed restart, since the guest should run. */
function isStillWanted(after: unknown): void {
  const { guests } = after as { guests: { status: string; wanted: string }[] }
  expect(guests.map(({ status }) => status)).to.be.deep.oneOf([['running'], ['stopped']])
  expect(guests.map(({ wanted }) => wanted)).to.deep.equal(['running'])
}

/** A failure after the guest has its new password changes neither the guest nor its power. */
function isWhole(after: unknown, before: unknown, { phase }: Pick<StepEvent, 'phase'>): void {
  if (phase === 'before-run') return void expect(after).to.deep.equal(before)
  const [row] = (after as { guests: object[] }).guests
  expect(row).to.deep.equal({ ...(before as { guests: object[] }).guests[0], password: 'new' })
}

/** Any failure restores the old disk, except after the commit. */
function isOldOrCommitted(after: unknown, before: unknown, at: Pick<StepEvent, 'step' | 'phase'>): void {
  if (at.step !== 'commit' || at.phase !== 'after-run') return void expect(after).to.deep.equal(before)
  const [old] = (before as { guests: { journaled: string }[] }).guests
  const template = old!.journaled.replace('debian-12', 'debian-13')
  const changed = { journaled: template, template, password: 'new', passwordHolds: true }
  expect((after as { guests: object[] }).guests[0]).to.deep.equal({ ...old, ...changed })
}

/** There is no way back once the former disk is deleted: the guest has the restored disk, and runs. */
function isOldOrRestored(after: unknown, before: unknown, at: Pick<StepEvent, 'step' | 'phase'>): void {
  if (at.step !== 'forget' || at.phase !== 'after-run') return void expect(after).to.deep.equal(before)
  const [old] = (before as { guests: { journaled: string }[] }).guests
  const restored = { ...old, template: old!.journaled }
  expect((after as { guests: object[] }).guests[0]).to.deep.equal(restored)
}

/** Like for a disk: the guest boots from its former source, except after the commit. */
function isOldBootOrCommitted(after: unknown, before: unknown, at: Pick<StepEvent, 'step' | 'phase'>): void {
  if (at.step !== 'commit' || at.phase !== 'after-run') return void expect(after).to.deep.equal(before)
  const [was, is] = [before, after].map((found) => (found as { guests: { boot: BootChoice }[] }).guests[0]!)
  const changed: BootChoice =
    was!.boot.mode === 'rescue' ? { mode: 'disk', image: '' } : { mode: 'rescue', image: 'debian-12' }
  expect(is).to.deep.equal({ ...was, boot: changed })
}

/** A stop is not rolled back: the guest still runs or is stopped, and its desired state matches. */
function isConsistent(after: unknown): void {
  const { guests } = after as { guests: { status: string; wanted: string }[] }
  expect(guests.map(({ status }) => status)).to.be.deep.oneOf([['running'], ['stopped']])
  expect(guests.map(({ wanted }) => wanted)).to.deep.equal(guests.map(({ status }) => status))
}
