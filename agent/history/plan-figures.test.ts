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
    ['never more than all', base, later({ cpuUsec: 9e9 }), { ...idle, cpuPercent: 100 }],
    [
      'bytes a second',
      base,
      later({ rxBytes: 6000, writeBytes: 60 }),
      { ...idle, rxBytesPerSec: 100, writeBytesPerSec: 1 },
    ],
    ['by the time between readings', base, later({ atMs: 11_000, txBytes: 100 }), { ...idle, txBytesPerSec: 10 }],
    ['a first look has no rates', undefined, later({}), gauges],
    ['nor has another life', base, later({ life: '2', rxBytes: 9 }), gauges],
    ['nor the same reading', base, base, gauges],
    ['nor one too close to the other', base, { ...base, atMs: 1001 }, gauges],
    ['nor one too far from the other', base, later({ atMs: 200_000 }), gauges],
    ['nor a clock that went back', later({}), base, gauges],
    [
      'a counter that fell',
      later({ rxBytes: 50, atMs: 1000 }),
      later({ rxBytes: 10 }),
      { ...idle, rxBytesPerSec: undefined },
    ],
    ['no figures of the disk', base, later({ readBytes: undefined }), { ...idle, readBytesPerSec: undefined }],
    [
      'no figures of the network and the processors',
      base,
      later({ rxBytes: undefined, txBytes: undefined, cpuUsec: undefined }),
      { ...gauges, readBytesPerSec: 0, writeBytesPerSec: 0 },
    ],
    ['does not run', base, undefined, { diskBytes: 7 }],
  ] as const)
    it(name, () => {
      const figures = known(planFigures(before, now, { processors: 2, diskBytes: 7 }))
      expect(figures).to.deep.equal(JSON.parse(JSON.stringify(expected)))
    })

  it('has no figure for a disk that was not measured', () => {
    expect(known(planFigures(undefined, undefined, { processors: 1, diskBytes: undefined }))).to.deep.equal({})
  })
})
