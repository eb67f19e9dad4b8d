import { HistoryRange, type History as WireHistory } from '../../proto/gen/berth/agent/v1/history.js'
import { invalidField } from '../../shared/errors.js'
import type { FigureName, History, Range } from '../history/plan-series.js'

const ranges: ReadonlyMap<HistoryRange, Range> = new Map([
  [HistoryRange.HISTORY_RANGE_UNSPECIFIED, 'day'],
  [HistoryRange.HISTORY_RANGE_DAY, 'day'],
  [HistoryRange.HISTORY_RANGE_MONTH, 'month'],
  [HistoryRange.HISTORY_RANGE_YEAR, 'year'],
])

/** @throws {BerthError} `invalid_field` */
export function parseRange(wire: HistoryRange): Range {
  const range = ranges.get(wire)
  if (range === undefined) throw invalidField('range', 'range: must be one of day, month, year')
  return range
}

export function encodeHistory({ startMs, stepSeconds, steps }: History): WireHistory {
  const column = (name: FigureName): number[] => steps.map((figures) => figures[name])
  return {
    startMs,
    stepSeconds,
    cpuUsagePct: column('cpuPercent'),
    memoryBytes: column('memoryBytes'),
    diskBytes: column('diskBytes'),
    networkRxRate: column('rxBytesPerSec'),
    networkTxRate: column('txBytesPerSec'),
    ioReadRate: column('readBytesPerSec'),
    ioWriteRate: column('writeBytesPerSec'),
  }
}
