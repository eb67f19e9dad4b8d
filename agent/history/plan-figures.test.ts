import { expect } from 'chai'
import { planFigures, type Reading } from './plan-figures.js'
import type { Figures } from './plan-series.js'

const base: Reading = {
  atMs: 1000,
  life: '1',
  memoryBytes: 100,
  cpuUsec: 0,
  rxBytes: 0,
  txBytes: 0,
  readBytes: 0,
  writeBytes: 0,
}
const later = (change: Partial<Reading>): Reading => ({ ...base, atMs: 61_000, ...change })
const known = (figures: Figures): object =>
  Object.fromEntries(Object.entries(figures).filter(([, value]) => !Number.isNaN(value)))

const rates = { rxBytesPerSec: 0, txBytesPerSec: 0, readBytesPerSec: 0, writeBytesPerSec: 0 }
const gauges = { memoryBytes: 100, diskBytes: 7 }
const idle = { ...gauges, ...rates, cpuPercent: 0 }

describe('planFigures', () => {
  for (const [name, before, now, expected] of [
    ['idle', base, later({}), idle],
    ['half of two processors', base, later({ cpuUsec: 60_000_000 }), { ...idle, cpuPercent: 50 }],
    ['at most all processors', base, later({ cpuUsec: 9e9 }), { ...idle, cpuPercent: 100 }],
    [
      'bytes per second',
      base,
      later({ rxBytes: 6000, writeBytes: 60 }),
      { ...idle, rxBytesPerSec: 100, writeBytesPerSec: 1 },
    ],
    [
      'divided by the time between readings',
      base,
      later({ atMs: 11_000, txBytes: 100 }),
      { ...idle, txBytesPerSec: 10 },
    ],
    ['no rates for a first reading', undefined, later({}), gauges],
    ['no rates after a restart of the guest', base, later({ life: '2', rxBytes: 9 }), gauges],
    ['no rates for the same reading', base, base, gauges],
    ['no rates for readings that are too close', base, { ...base, atMs: 1001 }, gauges],
    ['no rates for readings that are too far apart', base, later({ atMs: 200_000 }), gauges],
    ['no rates after a clock went back', later({}), base, gauges],
    [
      'a counter that decreased',
      later({ rxBytes: 50, atMs: 1000 }),
      later({ rxBytes: 10 }),
      { ...idle, rxBytesPerSec: undefined },
    ],
    ['without disk counters', base, later({ readBytes: undefined }), { ...idle, readBytesPerSec: undefined }],
    [
      'without network and processor counters',
      base,
      later({ rxBytes: undefined, txBytes: undefined, cpuUsec: undefined }),
      { ...gauges, readBytesPerSec: 0, writeBytesPerSec: 0 },
    ],
    ['a stopped guest', base, undefined, { diskBytes: 7 }],
  ] as const)
    it(name, () => {
      const figures = known(planFigures(before, now, { processors: 2, diskBytes: 7 }))
      expect(figures).to.deep.equal(JSON.parse(JSON.stringify(expected)))
    })

  it('omits a disk that was not measured', () => {
    expect(known(planFigures(undefined, undefined, { processors: 1, diskBytes: undefined }))).to.deep.equal({})
  })
})
