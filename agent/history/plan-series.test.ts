import { expect } from 'chai'
import {
  completeSeries,
  figuresOf,
  findPoint,
  indexAt,
  meanOf,
  planHistory,
  planRollUp,
  planWrites,
  seriesBytes,
  tiers,
  type Figures,
  type Point,
  type Range,
} from './plan-series.js'

const noon = Date.UTC(2026, 10, 23, 12)
const minuteMs = 60_000
const hourMs = 60 * minuteMs

function seriesOf(points: Partial<Record<Range, readonly Point[]>>): Buffer {
  const series = Buffer.alloc(seriesBytes)
  for (const range of Object.keys(points) as Range[])
    for (const { offset, bytes } of planWrites(tiers[range], points[range] ?? [])) bytes.copy(series, offset)
  return series
}

/** Returns the minutes before `endMs`, oldest first. The last value belongs to the last minute. */
function minutesBefore(endMs: number, values: readonly number[]): Point[] {
  const end = indexAt(tiers.day, endMs)
  return values.map((cpuPercent, at) => ({
    index: end - values.length + at,
    figures: figuresOf({ cpuPercent }),
  }))
}

const cpuOf = (steps: readonly Figures[]): (number | null)[] =>
  steps.map(({ cpuPercent }) => (Number.isNaN(cpuPercent) ? null : cpuPercent))

describe('the stored usage series of a guest or host', () => {
  it('has a file of a fixed size, in which no record crosses a page boundary', () => {
    expect(seriesBytes).to.equal((1440 + 744 + 366) * 32)
    for (const { offset } of Object.values(tiers)) expect(offset % 32).to.equal(0)
  })

  it('stores every figure of a minute, and knows which figures are missing', () => {
    const figures = figuresOf({ cpuPercent: 12.5, memoryBytes: 1 << 20, txBytesPerSec: 0 })
    const series = seriesOf({ day: [{ index: 7, figures }] })
    expect(findPoint(series, tiers.day, 7)).to.deep.equal(figures)
    expect(findPoint(series, tiers.day, 7 + tiers.day.size), 'of the next round').to.equal(undefined)
    expect(findPoint(series, tiers.day, 0), 'an empty file').to.equal(undefined)
  })

  it('overwrites its oldest records, so that its file never grows', () => {
    const old = minutesBefore(noon, [1])
    const points = [...old, { index: old[0]!.index + 1440, figures: figuresOf({ cpuPercent: 2 }) }]
    const writes = planWrites(tiers.day, points)
    expect(writes[0]?.offset).to.equal(writes[1]?.offset)
    for (const { offset, bytes } of planWrites(tiers.year, [{ index: 20_780, figures: figuresOf({}) }]))
      expect(offset + bytes.length).to.be.at.most(seriesBytes)
  })

  it('writes adjacent records together, and continues at the beginning of its file when the file is full', () => {
    const start = 1440 * 20_000 - 2
    const points = [0, 1, 2, 3].map((at) => ({ index: start + at, figures: figuresOf({}) }))
    expect(planWrites(tiers.day, points).map(({ offset, bytes }) => [offset, bytes.length])).to.deep.equal([
      [1438 * 32, 64],
      [0, 64],
    ])
  })

  it('averages only the known values', () => {
    const all = [{ cpuPercent: 10 }, { cpuPercent: 20, memoryBytes: 4 }, {}].map(figuresOf)
    const mean = meanOf(all)
    expect([mean.cpuPercent, mean.memoryBytes]).to.deep.equal([15, 4])
    expect(mean.diskBytes).to.be.NaN
  })
})

describe('the usage values of a time range', () => {
  it('are empty for a series without values', () => {
    for (const range of ['day', 'month', 'year'] as const)
      expect(planHistory(seriesOf({}), range, noon)).to.deep.include({ startMs: 0, steps: [] })
  })

  it('begin with the first known value, and contain gaps for unknown values', () => {
    const day = [...minutesBefore(noon - 3 * minuteMs, [1, 2]), ...minutesBefore(noon - minuteMs, [4])]
    const { startMs, stepSeconds, steps } = planHistory(seriesOf({ day }), 'day', noon + 5000)
    expect([startMs, stepSeconds]).to.deep.equal([noon - 5 * minuteMs, 60])
    expect(cpuOf(steps)).to.deep.equal([1, 2, null, 4, null])
  })

  it('contain no values older than a day if the range is a day', () => {
    const day = minutesBefore(noon - 24 * hourMs, [9])
    expect(planHistory(seriesOf({ day }), 'day', noon).steps).to.deep.equal([])
    const still = planHistory(seriesOf({ day: minutesBefore(noon - 24 * hourMs + minuteMs, [9]) }), 'day', noon)
    expect(cpuOf(still.steps)[0]).to.equal(9)
    expect(still.steps).to.have.length(1440)
  })

  it('contain averages of the current hour and the current day even before these averages are written', () => {
    const day = [...minutesBefore(noon, [10, 20]), ...minutesBefore(noon + minuteMs, [40])]
    const nowMs = noon + 90_000
    const series = seriesOf({ day })
    completeSeries(series, nowMs)
    const month = planHistory(series, 'month', nowMs)
    expect([month.startMs, cpuOf(month.steps)]).to.deep.equal([noon - hourMs, [15, 40]])
    const year = planHistory(series, 'year', nowMs)
    expect([year.startMs, cpuOf(year.steps)]).to.deep.equal([noon - 12 * hourMs, [27.5]])
  })

  it('omit values from the future after the clock was set back', () => {
    const series = seriesOf({ day: minutesBefore(noon, [1, 2]) })
    expect(planHistory(series, 'day', noon - hourMs).steps).to.deep.equal([])
  })
})

describe('the aggregation of usage values', () => {
  const hour = indexAt(tiers.month, noon)

  it('turns the values of minutes into averages of hours as soon as each hour ends', () => {
    const day = [
      ...minutesBefore(noon - hourMs, [1, 3]),
      ...minutesBefore(noon, [5]),
      ...minutesBefore(noon + minuteMs, [9]),
    ]
    const points = planRollUp(seriesOf({ day }), 'month', { from: 0, end: hour })
    expect(points.map(({ index, figures }) => [index - hour, figures.cpuPercent])).to.deep.equal([
      [-2, 2],
      [-1, 5],
    ])
  })

  it('does not compute the averages of earlier hours again', () => {
    const day = minutesBefore(noon - hourMs, [1, 3])
    expect(planRollUp(seriesOf({ day }), 'month', { from: hour - 1, end: hour })).to.deep.equal([])
  })

  it('keeps the stored average of an hour even if only some minutes of this hour are still stored', () => {
    const month = [{ index: hour - 1, figures: figuresOf({ cpuPercent: 50 }) }]
    expect(
      planRollUp(seriesOf({ day: minutesBefore(noon, [1]), month }), 'month', { from: 0, end: hour }),
    ).to.deep.equal([])
  })

  it('turns averages of hours into averages of days, and omits days for which no hour is known', () => {
    const today = indexAt(tiers.year, noon)
    const month = [-24 * 20, -24, -23, 1].map((at) => ({
      index: today * 24 + at,
      figures: figuresOf({ cpuPercent: Math.abs(at) }),
    }))
    const points = planRollUp(seriesOf({ month }), 'year', { from: 0, end: today })
    expect(points.map(({ index, figures }) => [index - today, figures.cpuPercent])).to.deep.equal([
      [-20, 480],
      [-1, 23.5],
    ])
  })
})
