import { figuresOf, type Figures } from './plan-series.js'

/** A reading of counters, which only grow while `life` stays the same. After a change of `life`, they start at 0. */
export interface Reading {
  readonly atMs: number
  /** Identifies one run of the guest or the host: it differs after each start. */
  readonly life: string
  readonly memoryBytes: number
  /** Processor time in microseconds. This and all other counters are undefined if they could not be read. */
  readonly cpuUsec: number | undefined
  readonly rxBytes: number | undefined
  readonly txBytes: number | undefined
  readonly readBytes: number | undefined
  readonly writeBytes: number | undefined
}

/**
 * Minimum and maximum time in ms between two readings. Counters advance in steps, so the rates over a shorter time
 * would be wrong. A longer time would give an average of several minutes instead of one minute.
 */
const [shortestMs, longestMs] = [1000, 120_000]

/**
 * Computes the usage between two readings.
 * @param of.processors number of processors of the guest or the host
 * @param of.diskBytes disk usage in bytes; undefined: unknown
 */
export function planFigures(
  before: Reading | undefined,
  now: Reading | undefined,
  { processors, diskBytes }: { processors: number; diskBytes: number | undefined },
): Figures {
  const disk = diskBytes === undefined ? {} : { diskBytes }
  if (!now) return figuresOf(disk)
  const memory = { memoryBytes: now.memoryBytes }
  const elapsedMs = now.atMs - (before?.atMs ?? now.atMs)
  if (!before || before.life !== now.life || elapsedMs < shortestMs || elapsedMs > longestMs)
    return figuresOf({ ...memory, ...disk })
  const rate = (of: (reading: Reading) => number | undefined): number => {
    const grown = (of(now) ?? NaN) - (of(before) ?? NaN)
    return grown >= 0 ? (grown * 1000) / elapsedMs : NaN
  }
  return figuresOf({
    ...memory,
    ...disk,
    cpuPercent: Math.min(100, rate(({ cpuUsec }) => cpuUsec) / 1e4 / processors),
    rxBytesPerSec: rate(({ rxBytes }) => rxBytes),
    txBytesPerSec: rate(({ txBytes }) => txBytes),
    readBytesPerSec: rate(({ readBytes }) => readBytes),
    writeBytesPerSec: rate(({ writeBytes }) => writeBytes),
  })
}
