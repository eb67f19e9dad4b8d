import type { History as WireHistory } from '../../proto/gen/berth/agent/v1/history.js'
import { oneOf } from '../../shared/field-checks.js'
import type { FigureName, History, Range } from '../history/plan-series.js'

/** @throws {BerthError} `invalid_field` */
export function parseRange(range: string): Range {
  return oneOf('range', range, ['day', 'month', 'year'])
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
