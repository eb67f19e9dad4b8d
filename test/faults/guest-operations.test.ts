import { expect } from 'chai'
import { randomUUID } from 'node:crypto'
import { GuestMatrixHost, type GuestAction, type GuestBefore } from '../support/guest-matrix.js'
import type { StepEvent } from '../../agent/operations/types.js'
import { describeOperationMatrix, type MatrixOptions } from '../support/operation-matrix.js'

/*
 * Every step of every guest operation against real LXC, btrfs and nft: failing, with the agent gone before
 * and after it, run twice, undone twice. After each case the host is what the journal says, by other means
 * than the agent's.
 */

interface MatrixCase extends Pick<MatrixOptions, 'steps' | 'undone' | 'checkFailed'> {
  action: GuestAction
  before: GuestBefore
}

const boot = ['configure', 'network', 'start']

const cases: MatrixCase[] = [
  {
    action: 'create',
    before: 'absent',
    steps: ['disk', ...boot],
    undone: ['disk', 'network', 'start'],
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
  ...(['running', 'stopped'] as const).map((before): MatrixCase => ({
    action: 'reinstall',
    before,
    steps: ['image', 'disk', 'stop', 'keep', 'exchange', ...boot, 'commit'],
    undone: ['disk', 'stop', 'keep', 'exchange', 'start'],
    checkFailed: isOldOrCommitted,
  })),
  { action: 'delete', before: 'running', steps: ['remove'], undone: [] },
]

describe('guest operations', () => {
  let host: GuestMatrixHost

  before(async function () {
    this.timeout(60_000)
    host = await GuestMatrixHost.open('m')
  })
  after(async function () {
    this.timeout(60_000)
    await host?.close()
  })

  it('are refused for a guest that is to be deleted, but for the same order again', async () => {
    const subject = await host.prepare('delete', 'stopped')
    const [id, other] = [randomUUID(), randomUUID()]
    const { engine } = subject
    const inTime = subject.order('start', randomUUID())
    const asked = subject.order('delete', id)
    for (const action of ['start', 'stop', 'restart', 'delete'] as const) {
      const refusal = await subject.order(action, other).catch((error: unknown) => error)
      expect(refusal, action).to.include({ code: 'invalid_state' })
    }
    expect(await subject.order('delete', id)).to.deep.equal(await asked)
    expect(await engine.wait((await inTime).id)).to.include({ status: 'canceled', errorCode: 'superseded' })
    expect(await engine.wait(id)).to.include({ status: 'done' })
    expect(await subject.order('delete', id)).to.include({ id, status: 'done' })
    await subject.destroy()
  })

  for (const { action, before: state, ...options } of cases)
    describeOperationMatrix(`${action}, ${state} before`, {
      ...options,
      prepare: () => host.prepare(action, state),
    })
})

/** A restart that failed is tried again by the comparison with the host: it is wanted to run. */
function isStillWanted(after: unknown): void {
  const { guests } = after as { guests: { status: string; wanted: string }[] }
  expect(guests.map(({ status }) => status)).to.be.deep.oneOf([['running'], ['stopped']])
  expect(guests.map(({ wanted }) => wanted)).to.deep.equal(['running'])
}

/** What fails once the guest has its new password changes neither the guest nor its power. */
function isWhole(after: unknown, before: unknown, { phase }: Pick<StepEvent, 'phase'>): void {
  if (phase === 'before-run') return void expect(after).to.deep.equal(before)
  const [row] = (after as { guests: object[] }).guests
  expect(row).to.deep.equal({ ...(before as { guests: object[] }).guests[0], password: 'new' })
}

/** Whatever fails brings the old one back, but for what comes after the commit. */
function isOldOrCommitted(after: unknown, before: unknown, at: Pick<StepEvent, 'step' | 'phase'>): void {
  if (at.step !== 'commit' || at.phase !== 'after-run') return void expect(after).to.deep.equal(before)
  const changed = { journaled: 'debian-13', template: 'debian-13', password: 'new', passwordHolds: true }
  const [row] = (after as { guests: object[] }).guests
  expect(row).to.deep.equal({ ...(before as { guests: object[] }).guests[0], ...changed })
}

/** A stop is not taken back: the guest runs still or is stopped, and is wanted to be what it is. */
function isConsistent(after: unknown): void {
  const { guests } = after as { guests: { status: string; wanted: string }[] }
  expect(guests.map(({ status }) => status)).to.be.deep.oneOf([['running'], ['stopped']])
  expect(guests.map(({ wanted }) => wanted)).to.deep.equal(guests.map(({ status }) => status))
}
