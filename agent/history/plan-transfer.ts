import { figureNames, indexAt, recordBytes, tiers, type Range, type Tier } from './plan-series.js'

/* The usage history of a guest is sent as records. The records of each ring form one base64 text. */

export type SeriesPart = Readonly<Record<Range, string>>

/** Maximum difference in ms between the clocks of two hosts. Data that is further in the future is dropped. */
export const clockMs = 10 * 60_000
/** Maximum value of a figure. It is above every possible number of bytes. */
const maxFigure = 1e18

const ranges = Object.keys(tiers) as Range[]

/** Maximum length of the text of a ring. */
export function maxTextLength(range: Range): number {
  return Math.ceil((tiers[range].size * recordBytes) / 3) * 4
}

/** Returns the records that were possibly written at or after `sinceMs`. 0: all records. */
export function planPart(series: Buffer, sinceMs: number): SeriesPart {
  const part = (range: Range): string => {
    const tier = tiers[range]
    const firstIndex = Math.max(1, indexAt(tier, sinceMs) - 1) // the last minute, hour or day may have been incomplete
    const records = recordsOf(series.subarray(tier.offset, tier.offset + tier.size * recordBytes))
    return Buffer.concat(records.filter((record) => record.readUInt32LE() >= firstIndex)).toString('base64')
  }
  return Object.fromEntries(ranges.map((range) => [range, part(range)])) as Record<Range, string>
}

/**
 * Adds records from another host to a copy of the series file. Newer records of the file stay. Drops records that are
 * invalid or too old for the ring.
 */
export function mergePart(series: Buffer, part: SeriesPart, nowMs: number): void {
  for (const range of ranges) {
    const tier = tiers[range]
    for (const record of recordsOf(Buffer.from(part[range], 'base64'))) {
      if (!isValid(record, tier, nowMs)) continue
      const index = record.readUInt32LE()
      const offset = tier.offset + (index % tier.size) * recordBytes
      if (series.readUInt32LE(offset) <= index) record.copy(series, offset)
    }
  }
}

function recordsOf(bytes: Buffer): Buffer[] {
  const count = Math.floor(bytes.length / recordBytes)
  return Array.from({ length: count }, (_, at) => bytes.subarray(at * recordBytes, (at + 1) * recordBytes))
}

function isValid(record: Buffer, tier: Tier, nowMs: number): boolean {
  const index = record.readUInt32LE()
  if (index <= indexAt(tier, nowMs) - tier.size || index > indexAt(tier, nowMs + clockMs)) return false
  return figureNames.every((_, at) => isFigure(record.readFloatLE(4 + at * 4)))
}

function isFigure(value: number): boolean {
  return Number.isNaN(value) || (value >= 0 && value <= maxFigure)
}
