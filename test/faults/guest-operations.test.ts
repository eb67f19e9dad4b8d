import { expect } from 'chai'
import { randomUUID } from 'node:crypto'
import { GuestMatrixHost, type GuestAction, type GuestBefore } from '../support/guest-matrix.js'
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

/** A stop is not taken back: the guest runs still or is stopped, and is wanted to be what it is. */
function isConsistent(after: unknown): void {
  const { guests } = after as { guests: { status: string; wanted: string }[] }
  expect(guests.map(({ status }) => status)).to.be.deep.oneOf([['running'], ['stopped']])
  expect(guests.map(({ wanted }) => wanted)).to.deep.equal(guests.map(({ status }) => status))
}
