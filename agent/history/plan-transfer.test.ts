import { expect } from 'chai'
import {
  figuresOf,
  findPoint,
  indexAt,
  planWrites,
  applyWrites,
  seriesBytes,
  tiers,
  type Range,
} from './plan-series.js'
import { maxTextLength, mergePart, planPart, type SeriesPart } from './plan-transfer.js'

const minuteMs = 60_000
const nowMs = 20_000 * 24 * 60 * minuteMs + 90 * minuteMs
const now = indexAt(tiers.day, nowMs)

function seriesWith(range: Range, indexes: readonly number[], cpuPercent = 10): Buffer {
  const series = Buffer.alloc(seriesBytes)
  applyWrites(
    series,
    planWrites(
      tiers[range],
      indexes.map((index) => ({ index, figures: figuresOf({ cpuPercent }) })),
    ),
  )
  return series
}

function cpuAt(series: Buffer, range: Range, index: number): number | undefined {
  return findPoint(series, tiers[range], index)?.cpuPercent
}

describe('a series that moves to another host', () => {
  it('keeps all rings, and minutes without values stay gaps', () => {
    const series = seriesWith('day', [now - 3, now - 1])
    applyWrites(series, planWrites(tiers.year, [{ index: indexAt(tiers.year, nowMs) - 1, figures: figuresOf({}) }]))
    const merged = Buffer.alloc(seriesBytes)
    mergePart(merged, planPart(series, 0), nowMs)
    expect(merged.equals(series)).to.equal(true)
    expect(cpuAt(merged, 'day', now - 2)).to.equal(undefined)
  })

  it('sends only records since the last part, and the one that was incomplete then', () => {
    const part = planPart(seriesWith('day', [now - 4, now - 3, now - 2, now - 1]), nowMs - 2 * minuteMs)
    const merged = Buffer.alloc(seriesBytes)
    mergePart(merged, part, nowMs)
    expect([4, 3, 2, 1].map((ago) => cpuAt(merged, 'day', now - ago))).to.deep.equal([undefined, 10, 10, 10])
  })

  it('has a text of limited length for full rings', () => {
    const full = Array.from({ length: tiers.day.size }, (_, at) => now - at)
    expect(planPart(seriesWith('day', full), 0).day).to.have.lengthOf(maxTextLength('day'))
  })

  it('does not replace newer records of the target', () => {
    const merged = seriesWith('day', [now], 99)
    mergePart(merged, planPart(seriesWith('day', [now - tiers.day.size]), 0), nowMs)
    expect(cpuAt(merged, 'day', now)).to.equal(99)
  })

  for (const [name, index, cpuPercent] of [
    ['in the far future', now + 60, 10],
    ['older than the ring', now - tiers.day.size, 10],
    ['with a negative figure', now - 1, -1],
    ['with an infinite figure', now - 1, Infinity],
    ['with an absurd figure', now - 1, 1e30],
  ] as const)
    it(`drops a record ${name}`, () => {
      const merged = Buffer.alloc(seriesBytes)
      mergePart(merged, planPart(seriesWith('day', [index], cpuPercent), 0), nowMs)
      expect(merged.equals(Buffer.alloc(seriesBytes))).to.equal(true)
    })

  it('drops a record that is cut off', () => {
    const merged = Buffer.alloc(seriesBytes)
    const cut: SeriesPart = { day: Buffer.alloc(31, 1).toString('base64'), month: '', year: '' }
    mergePart(merged, cut, nowMs)
    expect(merged.equals(Buffer.alloc(seriesBytes))).to.equal(true)
  })
})
