import { expect } from 'chai'
import { planDaysUntilFull, planFits, planSparkline, sparkline, type Series } from './plan-usage.js'

const hourMs = 3_600_000
const nowMs = 1_800_000_000_000
const gib = 1024 ** 3

describe('the summary of a host’s history', () => {
  const minutes = (values: readonly number[]): Series => ({
    startMs: nowMs - values.length * 60_000,
    stepMs: 60_000,
    values,
  })

  it('averages known values, and contains null where no value is known', () => {
    const points = planSparkline(minutes([...Array<number>(30).fill(NaN), ...Array<number>(15).fill(10), 40]), nowMs)
    expect(points).to.have.length(sparkline.points)
    expect(points.slice(0, -2).every((point) => point === null)).to.equal(true)
    expect(points.slice(-2)).to.deep.equal([null, 11.9])
  })

  it('ignores values that are older than a day, and values from the future', () => {
    const old = planSparkline({ startMs: nowMs - 25 * hourMs, stepMs: 60_000, values: [50] }, nowMs)
    const future = planSparkline({ startMs: nowMs + hourMs, stepMs: 60_000, values: [50] }, nowMs)
    expect([...old, ...future].every((point) => point === null)).to.equal(true)
  })
})

describe('the day on which a disk will be full', () => {
  const hours = (count: number, bytesAt: (hour: number) => number): Series => ({
    startMs: nowMs - count * hourMs,
    stepMs: hourMs,
    values: Array.from({ length: count }, (_, hour) => bytesAt(hour)),
  })
  const growing = hours(10 * 24 + 1, (hour) => (100 + hour / 24) * gib)
  for (const [name, series, totalGib, days] of [
    ['is predicted from steady growth', growing, 160.5, 50],
    ['is today if the disk is full', growing, 100, 0],
    ['is unknown if the usage does not grow', hours(240, () => gib), 160, null],
    ['is unknown if the usage shrinks', hours(240, (hour) => (300 - hour) * gib), 400, null],
    ['is unknown after less than three days', hours(72, (hour) => hour * gib), 160, null],
    ['is unknown without values', hours(240, () => NaN), 160, null],
    ['is unknown if it is more than two years away', growing, 1000, null],
    ['is unknown if the size of the disk is unknown', growing, 0, null],
    ['ignores gaps', hours(241, (hour) => (hour % 3 === 1 ? NaN : (100 + hour / 24) * gib)), 160.5, 50],
  ] as const)
    it(name, () => expect(planDaysUntilFull(series, totalGib * gib)).to.equal(days))
})

describe('the number of guests that fit on a host', () => {
  const size = { vcpuMilli: 2000, ramMb: 2048, diskGb: 20 }
  const capacity = { cpuCores: 8, ramTotalMb: 32_768, diskTotalGb: 500 }
  const allocated = { vcpuMilli: 4000, ramMb: 8192, diskGb: 100 }
  for (const [name, ratios, parts, fits] of [
    ['is limited by the scarcest resource', { cpu: 1, ram: 1, disk: 1 }, {}, 2],
    ['takes the overcommit ratio of each resource into account', { cpu: 4, ram: 1, disk: 1 }, {}, 12],
    ['ignores resources without a limit', { cpu: 0, ram: 0, disk: 1 }, {}, 20],
    ['is 0 if the allocated resources already exceed the limit', { cpu: 1, ram: 0.1, disk: 1 }, {}, 0],
    ['is 0 if the capacity is unknown', { cpu: 1, ram: 1, disk: 1 }, { capacity: undefined }, 0],
  ] as const)
    it(name, () => expect(planFits({ allocated, capacity, ratios, ...parts }, size)).to.equal(fits))
})
