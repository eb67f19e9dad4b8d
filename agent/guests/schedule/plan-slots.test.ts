import { expect } from 'chai'
import { createTimeFormat } from '../../../shared/time.js'
import { firstDayOf, nextSlotMs } from './plan-slots.js'

const berlin = createTimeFormat('Europe/Berlin')
const zones = {
  Berlin: berlin,
  UTC: createTimeFormat('UTC'),
  'New York': createTimeFormat('America/New_York'),
  'Lord Howe': createTimeFormat('Australia/Lord_Howe'),
  Kathmandu: createTimeFormat('Asia/Kathmandu'),
} as const

type Zone = keyof typeof zones

/** Returns the runs of a schedule after a time, in UTC. */
function runs(
  zone: Zone,
  [intervalHours, time, firstDay]: readonly [number, string, string],
  from: string,
  count: number,
): string[] {
  const found: string[] = []
  let at = Date.parse(from)
  while (found.length < count) {
    at = nextSlotMs({ intervalHours, time, firstDay }, at, zones[zone])
    found.push(new Date(at).toISOString().slice(5, 16))
  }
  return found
}

describe('the times of a snapshot schedule', () => {
  for (const [name, zone, schedule, from, expected] of [
    [
      ...(['daily across the clock change in spring', 'Berlin', [24, '03:30', '2026-01-01']] as const),
      ...(['2026-03-28T00:00Z', ['03-28T02:30', '03-29T01:30', '03-30T01:30']] as const),
    ],
    [
      ...(['daily across the clock change in autumn', 'Berlin', [24, '03:30', '2026-01-01']] as const),
      ...(['2026-10-24T00:00Z', ['10-24T01:30', '10-25T02:30', '10-26T02:30']] as const),
    ],
    [
      ...([
        'daily at a time that the clock change in spring skips (an hour later on that day)',
        'Berlin',
        [24, '02:30', '2026-01-01'],
      ] as const),
      ...(['2026-03-28T00:00Z', ['03-28T01:30', '03-29T01:30', '03-30T00:30']] as const),
    ],
    [
      ...([
        'daily at a time that occurs twice at the clock change in autumn',
        'Berlin',
        [24, '02:30', '2026-01-01'],
      ] as const),
      ...(['2026-10-24T00:00Z', ['10-24T00:30', '10-25T00:30', '10-26T01:30']] as const),
    ],
    [
      ...(['every six hours across the clock change in spring', 'Berlin', [6, '03:00', '2026-01-01']] as const),
      ...(['2026-03-28T19:00Z', ['03-28T20:00', '03-29T01:00', '03-29T07:00', '03-29T13:00']] as const),
    ],
    [
      ...(['every six hours across the clock change in autumn', 'Berlin', [6, '03:00', '2026-01-01']] as const),
      ...(['2026-10-24T18:00Z', ['10-24T19:00', '10-25T02:00', '10-25T08:00', '10-25T14:00']] as const),
    ],
    [
      ...([
        'hourly across the clock change in spring, and never twice at the same time',
        'Berlin',
        [1, '00:00', '2026-01-01'],
      ] as const),
      ...(['2026-03-28T23:00Z', ['03-29T00:00', '03-29T01:00', '03-29T02:00', '03-29T03:00']] as const),
    ],
    [
      ...([
        'hourly across the clock change in autumn, and skips no hour',
        'Berlin',
        [1, '00:15', '2026-01-01'],
      ] as const),
      ...(['2026-10-24T23:00Z', ['10-24T23:15', '10-25T00:15', '10-25T01:15', '10-25T02:15']] as const),
    ],
    [
      ...(['weekly, on the weekday of the first run', 'New York', [168, '23:00', '2026-03-01']] as const),
      ...(['2026-02-27T00:00Z', ['03-02T04:00', '03-09T03:00', '03-16T03:00']] as const),
    ],
    [
      ...(['every five hours around the clock', 'UTC', [5, '03:00', '2026-05-01']] as const),
      ...(['2026-04-30T23:00Z', ['05-01T03:00', '05-01T08:00', '05-01T13:00', '05-01T18:00']] as const),
    ],
    [
      ...(['in a zone whose offset is not a whole hour', 'Kathmandu', [12, '06:00', '2026-05-01']] as const),
      ...(['2026-05-01T00:00Z', ['05-01T00:15', '05-01T12:15', '05-02T00:15']] as const),
    ],
    [
      ...(['in a zone with clock changes of half an hour', 'Lord Howe', [24, '02:15', '2026-01-01']] as const),
      ...(['2026-10-02T20:00Z', ['10-03T15:45', '10-04T15:15']] as const),
    ],
    [
      ...(['once a year', 'UTC', [8760, '00:00', '2026-06-01']] as const),
      ...(['2026-05-31T12:00Z', ['06-01T00:00', '06-01T00:00', '05-31T00:00']] as const),
    ],
  ] as const)
    it(`are the expected local times for a schedule that runs ${name}`, () =>
      expect(runs(zone, schedule, from, expected.length)).to.deep.equal(expected))

  for (const [name, now, timeOfDay, expected] of [
    ['later today', '2026-05-01 10:00:00', '10:01', '2026-05-01'],
    ['this minute', '2026-05-01 10:00:00', '10:00', '2026-05-02'],
    ['earlier today', '2026-05-01 10:00:00', '03:00', '2026-05-02'],
    ['skipped by today’s clock change', '2026-03-29 01:00:00', '02:30', '2026-03-29'],
  ] as const)
    it(`begin on ${expected} if the time of day is ${name}`, () =>
      expect(firstDayOf(timeOfDay, berlin.parse(now)!, berlin)).to.equal(expected))
})
