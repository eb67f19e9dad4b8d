import { expect } from 'chai'
import { once } from 'node:events'
import { waitFor } from '../../../test/support/wait.js'
import { conflict } from '../../../shared/errors.js'
import type { LiveMoves, MemoryProgress } from '../../drivers/contract.js'
import type { Machine } from '../../drivers/machine.js'
import { LiveTransfer, type LiveTransferParts } from './live-transfer.js'
import type { MoveInput } from './move-input.js'
import type { SentDisk } from './plan-copy-rounds.js'

const mib = 1024 ** 2
const [small, large] = [
  { bytes: mib, tookMs: 10 },
  { bytes: 900 * mib, tookMs: 9000 },
] as const

describe('a live move, which sends disk changes in several transfers and then the memory', () => {
  let progress: Pick<MemoryProgress, 'state' | 'writtenBytes'>
  let isHeld: boolean
  /** For each round that was sent: true if the memory connection was held when the round began. */
  let rounds: boolean[]
  let sendRound: (signal: AbortSignal) => Promise<SentDisk>
  let step: LiveTransferParts['step']

  beforeEach(() => {
    progress = { state: 'sending', writtenBytes: 0 }
    isHeld = true
    rounds = []
    sendRound = async () => small
    const input = { bandwidthMbps: 0 } as Partial<MoveInput> as MoveInput
    step = { input, signal: new AbortController().signal, report: () => undefined }
  })

  function begin(): Promise<number> {
    const readProgress = async () =>
      ({ ...progress, remainingBytes: 1, bytesPerSec: 1, expectedDowntimeMs: 1, slowedPercent: 0 }) as const
    const memory = {
      get isHeld() {
        return isHeld
      },
      hold: () => (isHeld = true),
      release: () => (isHeld = false),
    }
    return new LiveTransfer({
      step,
      memory,
      live: { readProgress } as Partial<LiveMoves> as LiveMoves,
      machine: {} as Machine,
      now: () => 5,
      refuseTicket: () => undefined,
      sendRound: (signal) => {
        rounds.push(isHeld)
        return sendRound(signal)
      },
    }).untilPaused()
  }

  async function end(paused: Promise<number>): Promise<void> {
    progress = { ...progress, state: 'paused' }
    expect(await paused).to.equal(5)
  }

  it('sends memory only after a transfer with few disk changes', async () => {
    const sizes = [large, large, small]
    sendRound = async () => sizes.shift() ?? small
    const paused = begin()
    await waitFor(() => !isHeld)
    expect(rounds).to.deep.equal([true, true, true])
    await end(paused)
  })

  it('interrupts the transfer of the memory to send disk changes again if the guest has written much to its disk', async () => {
    const paused = begin()
    await waitFor(() => !isHeld)
    progress = { ...progress, writtenBytes: 100 * mib }
    await waitFor(() => rounds.length === 2)
    expect(rounds).to.deep.equal([true, true])
    await end(paused)
  })

  it('aborts a running transfer of disk changes as soon as the guest is paused', async () => {
    sendRound = async (signal) => {
      await once(signal, 'abort')
      throw new Error('the round was ended')
    }
    const paused = begin()
    await waitFor(() => rounds.length === 1)
    await end(paused)
    expect(isHeld).to.equal(false)
  })

  it('fails as soon as a transfer of disk changes fails, so that the guest is not paused without need', async () => {
    sendRound = async () => Promise.reject(conflict('storage_full', 'the target is full'))
    expect(await begin().catch((error: unknown) => error)).to.include({ code: 'storage_full' })
  })

  it('fails if every transfer contains many disk changes', async () => {
    sendRound = async () => large
    expect(await begin().catch((error: unknown) => error)).to.include({ code: 'move_too_slow' })
  })
})
