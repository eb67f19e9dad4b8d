import type { TrafficLimit } from '../guests/record/record.js'
import type { ByteCounters } from '../network/contract.js'
import { advancePeriod, type CountedPeriod } from './period.js'

/** A guest's traffic as stored in the journal. */
export interface TrafficCount extends CountedPeriod {
  /** Bytes that the guest has received in this period. */
  readonly rxBytes: number
  readonly txBytes: number
  /** Id of the boot in which the counters were last read. Counters begin at 0 in each boot. */
  readonly counterEpoch: string
  readonly counterRx: number
  readonly counterTx: number
}

/** A reading of a guest's counters, and a function that computes the traffic period at the time of the reading. */
export interface CountLook {
  readonly epoch: string
  /** The guest's counters. Undefined: they could not be read. */
  readonly counters: ByteCounters | undefined
  /** True if the guest was probably off since the last reading. Received bytes then count only if it also sent data. */
  readonly off?: boolean
  /** Returns the first day of the present period, for guests with this reset day. */
  readonly startOf: (resetDay: number) => string
}

/** Updates a count from the host's counters. Traffic since the last reading counts in the present period. */
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

/** Returns the counters of this reading. If they could not be read, returns the counters of the previous reading. */
function planCounters(have: TrafficCount | undefined, { epoch, counters }: CountLook): Counters {
  if (counters) return { counterEpoch: epoch, counterRx: counters.rxBytes, counterTx: counters.txBytes }
  return have ?? { counterEpoch: epoch, ...noCounters }
}

export const noBytes: ByteCounters = { rxBytes: 0, txBytes: 0 }

/** Returns the increase since the reading `last`. A lower value means that the counter was reset to 0. */
function since(now: number, last: number): number {
  return now >= last ? now - last : now
}

const gigabyte = 1e9

/** True if the total quota of the period is reached, or in split mode the quota of one direction. */
export function isUsedUp({ mode, monthlyGb, inGb, outGb }: TrafficLimit, use: ByteCounters): boolean {
  const reached = (bytes: number, gb: number): boolean => gb > 0 && bytes >= gb * gigabyte
  if (mode === 'total') return reached(use.rxBytes + use.txBytes, monthlyGb)
  return reached(use.rxBytes, inGb) || reached(use.txBytes, outGb)
}
