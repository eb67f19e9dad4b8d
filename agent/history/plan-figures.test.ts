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

describe('the usage computed from two readings', () => {
  for (const [name, before, now, expected] of [
    ['is 0 for an idle guest', base, later({}), idle],
    [
      'is 50 % if one of two processors was fully used',
      base,
      later({ cpuUsec: 60_000_000 }),
      { ...idle, cpuPercent: 50 },
    ],
    ['is at most 100 % of the processors', base, later({ cpuUsec: 9e9 }), { ...idle, cpuPercent: 100 }],
    [
      'contains rates in bytes per second',
      base,
      later({ rxBytes: 6000, writeBytes: 60 }),
      { ...idle, rxBytesPerSec: 100, writeBytesPerSec: 1 },
    ],
    [
      'contains the increase of a counter, divided by the time between the readings',
      base,
      later({ atMs: 11_000, txBytes: 100 }),
      { ...idle, txBytesPerSec: 10 },
    ],
    ['has no rates if there is no earlier reading', undefined, later({}), gauges],
    ['has no rates after a restart of the guest', base, later({ life: '2', rxBytes: 9 }), gauges],
    ['has no rates if the reading is the same as the previous reading', base, base, gauges],
    ['has no rates if two readings are too close to each other', base, { ...base, atMs: 1001 }, gauges],
    ['has no rates if two readings are too far apart', base, later({ atMs: 200_000 }), gauges],
    ['has no rates after the clock was set back', later({}), base, gauges],
    [
      'has no rate for a counter that decreased',
      later({ rxBytes: 50, atMs: 1000 }),
      later({ rxBytes: 10 }),
      { ...idle, rxBytesPerSec: undefined },
    ],
    [
      'has no rate for a missing disk counter',
      base,
      later({ readBytes: undefined }),
      { ...idle, readBytesPerSec: undefined },
    ],
    [
      'has no rates for missing network and processor counters',
      base,
      later({ rxBytes: undefined, txBytes: undefined, cpuUsec: undefined }),
      { ...gauges, readBytesPerSec: 0, writeBytesPerSec: 0 },
    ],
    ['contains no values except the disk usage for a stopped guest', base, undefined, { diskBytes: 7 }],
  ] as const)
    it(name, () => {
      const figures = known(planFigures(before, now, { processors: 2, diskBytes: 7 }))
      expect(figures).to.deep.equal(JSON.parse(JSON.stringify(expected)))
    })

  it('has no disk usage if the disk was not measured', () => {
    expect(known(planFigures(undefined, undefined, { processors: 1, diskBytes: undefined }))).to.deep.equal({})
  })
})
