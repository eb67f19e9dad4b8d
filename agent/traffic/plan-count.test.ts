import { expect } from 'chai'
import { unlimitedTraffic } from '../guests/record/record.js'
import { isUsedUp, planCount, type CountLook, type TrafficCount } from './plan-count.js'

const counters = (rxBytes: number, txBytes: number) => ({ rxBytes, txBytes })
const look = (change: Partial<CountLook>): CountLook => ({
  epoch: 'boot-1',
  counters: undefined,
  startOf: () => '2026-11-01',
  ...change,
})
const have: TrafficCount = {
  periodStart: '2026-11-01',
  periodLeft: '',
  rxBytes: 1000,
  txBytes: 500,
  counterEpoch: 'boot-1',
  counterRx: 700,
  counterTx: 300,
}

describe('plan a count', () => {
  for (const [name, before, change, expected] of [
    [
      'the first reading: counters began with the guest',
      undefined,
      { counters: counters(70, 30) },
      { ...have, rxBytes: 70, txBytes: 30, counterRx: 70, counterTx: 30 },
    ],
    [
      'no earlier reading, and no counters',
      undefined,
      {},
      { ...have, rxBytes: 0, txBytes: 0, counterRx: 0, counterTx: 0 },
    ],
    ['new traffic', have, { counters: counters(705, 300) }, { ...have, rxBytes: 1005, counterRx: 705 }],
    ['the same again: nothing twice', have, { counters: counters(700, 300) }, have],
    ['no counters at the moment', have, {}, have],
    [
      'counters that restarted',
      have,
      { counters: counters(20, 10) },
      { ...have, rxBytes: 1020, txBytes: 510, counterRx: 20, counterTx: 10 },
    ],
    [
      'one of them restarted',
      have,
      { counters: counters(20, 310) },
      { ...have, rxBytes: 1020, txBytes: 510, counterRx: 20, counterTx: 310 },
    ],
    [
      'another boot: everything is new',
      have,
      { epoch: 'boot-2', counters: counters(900, 400) },
      { ...have, rxBytes: 1900, txBytes: 900, counterEpoch: 'boot-2', counterRx: 900, counterTx: 400 },
    ],
    ['another boot, not counted yet', have, { epoch: 'boot-2' }, have],
    [
      'a new month',
      have,
      { startOf: () => '2026-12-01', counters: counters(710, 300) },
      { ...have, periodStart: '2026-12-01', rxBytes: 10, txBytes: 0, counterRx: 710 },
    ],
    [
      'the clock went back a month',
      { ...have, periodStart: '2026-12-01' },
      { counters: counters(710, 300) },
      { ...have, periodStart: '2026-12-01', rxBytes: 1010, counterRx: 710 },
    ],
    [
      'the clock was years ahead: its count belongs to the present month',
      { ...have, periodStart: '2031-01-01' },
      { counters: counters(710, 300) },
      { ...have, periodLeft: '2031-01-01', rxBytes: 1010, counterRx: 710 },
    ],
  ] as const)
    it(name, () => expect(planCount(before, 1, look(change))).to.deep.equal(expected))
})

describe('a quota is used up', () => {
  const gb = 1e9
  for (const [name, limit, rx, tx, expected] of [
    ['unlimited', {}, 1e15, 1e15, false],
    ['below', { monthlyGb: 2 }, gb, gb - 1, false],
    ['both directions together', { monthlyGb: 2 }, gb, gb, true],
    ['beyond', { monthlyGb: 2 }, 5 * gb, 0, true],
    ['split quotas are ignored in total mode', { inGb: 1, outGb: 1 }, 5 * gb, 5 * gb, false],
    ['split, below both', { mode: 'split', inGb: 2, outGb: 1 }, 2 * gb - 1, gb - 1, false],
    ['split, in', { mode: 'split', inGb: 2, outGb: 1 }, 2 * gb, 0, true],
    ['split, out', { mode: 'split', inGb: 2, outGb: 1 }, 0, gb, true],
    ['split, in unlimited', { mode: 'split', outGb: 1 }, 1e15, 0, false],
    ['split, the total is ignored', { mode: 'split', monthlyGb: 1 }, 5 * gb, 5 * gb, false],
  ] as const)
    it(name, () => expect(isUsedUp({ ...unlimitedTraffic, ...limit }, counters(rx, tx))).to.equal(expected))
})
