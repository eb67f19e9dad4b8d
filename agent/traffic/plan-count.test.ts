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

describe('the update of the traffic count of a guest', () => {
  for (const [name, before, change, expected] of [
    [
      'counts the whole value of the counters at the first reading',
      undefined,
      { counters: counters(70, 30) },
      { ...have, rxBytes: 70, txBytes: 30, counterRx: 70, counterTx: 30 },
    ],
    [
      'begins at 0 if the guest has no counters at the first reading',
      undefined,
      {},
      { ...have, rxBytes: 0, txBytes: 0, counterRx: 0, counterTx: 0 },
    ],
    [
      'adds the increase since the last reading',
      have,
      { counters: counters(705, 300) },
      { ...have, rxBytes: 1005, counterRx: 705 },
    ],
    ['adds nothing if the counters are unchanged', have, { counters: counters(700, 300) }, have],
    ['changes nothing if the guest has no counters', have, {}, have],
    [
      'adds the whole value of counters that were reset',
      have,
      { counters: counters(20, 10) },
      { ...have, rxBytes: 1020, txBytes: 510, counterRx: 20, counterTx: 10 },
    ],
    [
      'adds the whole value of both counters if only one counter was reset',
      have,
      { counters: counters(20, 310) },
      { ...have, rxBytes: 1020, txBytes: 510, counterRx: 20, counterTx: 310 },
    ],
    [
      'adds the whole value of the counters after a reboot of the host',
      have,
      { epoch: 'boot-2', counters: counters(900, 400) },
      { ...have, rxBytes: 1900, txBytes: 900, counterEpoch: 'boot-2', counterRx: 900, counterTx: 400 },
    ],
    ['changes nothing if the guest has no counters after a reboot of the host', have, { epoch: 'boot-2' }, have],
    [
      'begins again with only the new traffic in a new month',
      have,
      { startOf: () => '2026-12-01', counters: counters(710, 300) },
      { ...have, periodStart: '2026-12-01', rxBytes: 10, txBytes: 0, counterRx: 710 },
    ],
    [
      'keeps the count if the clock was set back by a month',
      { ...have, periodStart: '2026-12-01' },
      { counters: counters(710, 300) },
      { ...have, periodStart: '2026-12-01', rxBytes: 1010, counterRx: 710 },
    ],
    [
      'moves the count to the present month if the clock was years ahead',
      { ...have, periodStart: '2031-01-01' },
      { counters: counters(710, 300) },
      { ...have, periodLeft: '2031-01-01', rxBytes: 1010, counterRx: 710 },
    ],
  ] as const)
    it(name, () => expect(planCount(before, 1, look(change))).to.deep.equal(expected))
})

describe('the check whether a guest has used up its traffic quota', () => {
  const gb = 1e9
  for (const [name, limit, rx, tx, expected] of [
    ['is false if the guest has no quota', {}, 1e15, 1e15, false],
    ['is false if the traffic is below the quota', { monthlyGb: 2 }, gb, gb - 1, false],
    ['is true if the traffic of both directions together reaches the quota', { monthlyGb: 2 }, gb, gb, true],
    ['is true if the traffic exceeds the quota', { monthlyGb: 2 }, 5 * gb, 0, true],
    ['ignores quotas of single directions in total mode', { inGb: 1, outGb: 1 }, 5 * gb, 5 * gb, false],
    [
      'is false in split mode if both directions are below their quotas',
      { mode: 'split', inGb: 2, outGb: 1 },
      2 * gb - 1,
      gb - 1,
      false,
    ],
    [
      'is true in split mode if received traffic reaches its quota',
      { mode: 'split', inGb: 2, outGb: 1 },
      2 * gb,
      0,
      true,
    ],
    ['is true in split mode if sent traffic reaches its quota', { mode: 'split', inGb: 2, outGb: 1 }, 0, gb, true],
    [
      'is false in split mode if only sent traffic has a quota, even if much traffic is received',
      { mode: 'split', outGb: 1 },
      1e15,
      0,
      false,
    ],
    [
      'ignores the total quota in split mode, in which each direction has its own quota',
      { mode: 'split', monthlyGb: 1 },
      5 * gb,
      5 * gb,
      false,
    ],
  ] as const)
    it(name, () => expect(isUsedUp({ ...unlimitedTraffic, ...limit }, counters(rx, tx))).to.equal(expected))
})
