import { expect } from 'chai'
import { createZonedTime, relativeTime } from './zoned-time.ts'

describe('times in the time zone of the server', () => {
  for (const [name, zone, text, utc] of [
    ['UTC', 'UTC', '2026-11-27 06:00:00', '2026-11-27T06:00:00Z'],
    ['a zone ahead of UTC', 'Asia/Shanghai', '2026-11-27 06:00:00', '2026-11-26T22:00:00Z'],
    ['summer time', 'Europe/Berlin', '2026-07-01 12:00:00', '2026-07-01T10:00:00Z'],
    ['the hour after the clocks go forward', 'Europe/Berlin', '2026-03-29 03:30:00', '2026-03-29T01:30:00Z'],
    ['the hour before the clocks go forward', 'Europe/Berlin', '2026-03-29 01:30:00', '2026-03-29T00:30:00Z'],
  ] as const)
    it(`are converted to UTC and back: ${name}`, () => {
      const time = createZonedTime(zone)
      expect(time.parse(text)).to.equal(Date.parse(utc))
      expect(time.format(Date.parse(utc))).to.equal(text)
    })

  it('are undefined for texts that contain no time', () => {
    for (const text of ['', '–', '2026-11-27', 'never']) expect(createZonedTime('UTC').parse(text)).to.equal(undefined)
  })

  const now = Date.UTC(2026, 10, 27, 12)
  for (const [seconds, text] of [
    [0, 'now'],
    [-59, 'now'],
    [-60, '1 minute ago'],
    [-3 * 3600 - 100, '3 hours ago'],
    [-86_400, 'yesterday'],
    [5 * 86_400, 'in 5 days'],
    [-8 * 86_400, undefined],
    [8 * 86_400, undefined],
  ] as const)
    it(`are ${text === undefined ? 'not described in words' : `“${text}”`} if they are ${seconds} s from now`, () =>
      expect(relativeTime(now + seconds * 1000, now, 'en')).to.equal(text))
})
