import { figuresOf, type Figures } from './plan-series.js'

/** Counters that only grow, and what they are of: another `life` begins anew. */
export interface Reading {
  readonly atMs: number
  /** Names the guest's present run, or the host's. */
  readonly life: string
  readonly memoryBytes: number
  readonly cpuUsec: number
  readonly rxBytes: number
  readonly txBytes: number
  /** Undefined: not known. */
  readonly readBytes: number | undefined
  readonly writeBytes: number | undefined
}

/** Two readings further apart say nothing of a minute. */
const longestMs = 120_000

/**
 * Use between two readings.
 * @param of.processors that the guest or the host has
 * @param of.diskBytes undefined: not known
 */
export function planFigures(
  before: Reading | undefined,
  now: Reading | undefined,
  { processors, diskBytes }: { processors: number; diskBytes: number | undefined },
): Figures {
  const disk = diskBytes === undefined ? {} : { diskBytes }
  if (!now) return figuresOf(disk)
  const memory = { memoryBytes: now.memoryBytes }
  const seconds = (now.atMs - (before?.atMs ?? now.atMs)) / 1000
  if (!before || before.life !== now.life || seconds <= 0 || seconds * 1000 > longestMs)
    return figuresOf({ ...memory, ...disk })
  const rate = (of: (reading: Reading) => number | undefined): number => {
    const grown = (of(now) ?? NaN) - (of(before) ?? NaN)
    return grown >= 0 ? grown / seconds : NaN
  }
  return figuresOf({
    ...{ ...memory, ...disk },
    cpuPercent: Math.min(100, rate(({ cpuUsec }) => cpuUsec) / 1e4 / processors),
    rxBytesPerSec: rate(({ rxBytes }) => rxBytes),
    txBytesPerSec: rate(({ txBytes }) => txBytes),
    readBytesPerSec: rate(({ readBytes }) => readBytes),
    writeBytesPerSec: rate(({ writeBytes }) => writeBytes),
  })
}
