import type { TrafficLimit } from '../guests/record.js'
import type { ByteCounters } from '../network/contract.js'
import { advancePeriod, type CountedPeriod } from './period.js'

/** What is journaled of a guest's traffic. */
export interface TrafficCount extends CountedPeriod {
  /** In this period. */
  readonly rxBytes: number
  readonly txBytes: number
  /** The host's counters as read last, and of which life of the host they are: another one began at 0. */
  readonly counterEpoch: string
  readonly counterRx: number
  readonly counterTx: number
}

export interface CountLook {
  readonly epoch: string
  /** Undefined: not counted at the moment. */
  readonly counters: ByteCounters | undefined
  /** It did not run, as far as is known: what came was for nobody, unless it sent something. */
  readonly off?: boolean
  /** First day of the present period by reset day. */
  readonly startOf: (resetDay: number) => string
}

/** The count after a look at the host's counters. What came since the last look belongs to the present period. */
export function planCount(have: TrafficCount | undefined, resetDay: number, look: CountLook): TrafficCount {
  const { reset, ...period } = advancePeriod(have, resetDay, look.startOf)
  const { rxBytes, txBytes } = have && !reset ? have : noBytes
  const counters = planCounters(have, look)
  const same = have?.counterEpoch === counters.counterEpoch ? have : noCounters
  const last = look.off && same.counterTx === counters.counterTx ? counters : same
  return {
    ...counters,
    ...period,
    rxBytes: rxBytes + since(counters.counterRx, last.counterRx),
    txBytes: txBytes + since(counters.counterTx, last.counterTx),
  }
}

type Counters = Pick<TrafficCount, 'counterEpoch' | 'counterRx' | 'counterTx'>

const noCounters = { counterRx: 0, counterTx: 0 }

/** As looked at; where they were not, as they were. */
function planCounters(have: TrafficCount | undefined, { epoch, counters }: CountLook): Counters {
  if (counters) return { counterEpoch: epoch, counterRx: counters.rxBytes, counterTx: counters.txBytes }
  return have ?? { counterEpoch: epoch, ...noCounters }
}

export const noBytes: ByteCounters = { rxBytes: 0, txBytes: 0 }

/** A value below the last one began anew. */
function since(now: number, last: number): number {
  return now >= last ? now - last : now
}

const gigabyte = 1e9

/** The period's quota, or one direction's, is reached. */
export function isUsedUp({ mode, monthlyGb, inGb, outGb }: TrafficLimit, use: ByteCounters): boolean {
  const reached = (bytes: number, gb: number): boolean => gb > 0 && bytes >= gb * gigabyte
  if (mode === 'total') return reached(use.rxBytes + use.txBytes, monthlyGb)
  return reached(use.rxBytes, inGb) || reached(use.txBytes, outGb)
}
