import { expect } from 'chai'
import fc from 'fast-check'
import { BerthError } from './errors.js'
import { clampTime, createTimeFormat } from './time.js'

const berlin = createTimeFormat('Europe/Berlin')
const utc = createTimeFormat('UTC')
const at = (iso: string): number => Date.parse(iso)

describe('the time format of the API', () => {
  for (const [name, zone, text, iso] of [
    ['a local time in summer', berlin, '2026-07-01 12:00:00', '2026-07-01T10:00:00Z'],
    ['a local time in winter', berlin, '2026-01-01 12:00:00', '2026-01-01T11:00:00Z'],
    [
      'a local time that is skipped in spring, with the offset before the change',
      berlin,
      '2026-03-29 02:30:00',
      '2026-03-29T01:30:00Z',
    ],
    [
      'a local time that occurs twice in autumn as its first occurrence',
      berlin,
      '2026-10-25 02:30:00',
      '2026-10-25T00:30:00Z',
    ],
    ['a date as the last second of this day', berlin, '2026-07-01', '2026-07-01T21:59:59Z'],
    [
      'a date as the last second of this day even if the day has 25 hours',
      berlin,
      '2026-10-25',
      '2026-10-25T22:59:59Z',
    ],
    [
      'a date as the last second of this day even if the next midnight does not exist',
      createTimeFormat('America/Santiago'),
      '2026-09-05',
      '2026-09-06T03:59:59Z',
    ],
    ['RFC 3339 with Z', berlin, '2026-07-01T12:00:00Z', '2026-07-01T12:00:00Z'],
    ['RFC 3339 with offset and fraction', berlin, '2026-07-01t12:00:00.25+05:30', '2026-07-01T06:30:00.250Z'],
    ['a local time with T instead of a space', berlin, '2026-07-01T12:00:00', '2026-07-01T10:00:00Z'],
    ['a local time without seconds', berlin, '2026-07-01 12:00', '2026-07-01T10:00:00Z'],
    ['Unix seconds', berlin, '1767225600', '2026-01-01T00:00:00Z'],
    ['a leap day', utc, '2028-02-29 00:00:00', '2028-02-29T00:00:00Z'],
  ] as const)
    it(`reads ${name}`, () => expect(zone.parse(text)).to.equal(at(iso)))

  for (const text of [
    '2026-02-29',
    '2026-04-31 00:00:00',
    '2026-13-01',
    '2026-01-01 24:00:00',
    '2026-01-01 10:60:00',
    '2026-01-01T10:00:00+24:00',
    '2026-01-01 10',
    '2026-01-01 10:60',
    '1970-01-01 00:00:00',
    '2026-1-1',
    ' 2026-01-01',
    '2026-01-01\n',
    'tomorrow',
    '00',
    '5',
    '1767225',
    '20301231',
    '203012312359',
    '17672256000001',
    '-1767225600',
    '1767225600.5',
    '0000-00-01',
    '0000-00-00 00:00:01',
  ])
    it(`refuses ${JSON.stringify(text)}`, () => {
      expect(berlin.parse(text)).to.equal(undefined)
      expect(() => berlin.parseField('expires_at', text))
        .to.throw(BerthError)
        .with.property('field', 'expires_at')
    })

  it('reads "" and the zero dates of databases as “never”, and writes “never” as ""', () => {
    for (const never of ['', '0', '0000-00-00', '0000-00-00 00:00:00', '0000-00-00T00:00'])
      expect(berlin.parseField('expires_at', never), never).to.equal(0)
    expect(berlin.format(0)).to.equal('')
  })

  it('writes any time after the year 9999 as the end of that year, and can read its own text', () => {
    for (const zone of ['UTC', 'Pacific/Kiritimati', 'Pacific/Pago_Pago'].map(createTimeFormat)) {
      const last = '9999-12-31 23:59:59'
      expect(zone.format(zone.parse(last) ?? 0)).to.equal(last)
      for (const ms of [253_402_387_200_000, 8.64e15, 8.64e15 + 1, Number.MAX_SAFE_INTEGER, Infinity])
        expect(zone.format(ms)).to.equal(last)
      for (const ms of [-1, -8.64e15, Number.MIN_SAFE_INTEGER, -Infinity, NaN]) expect(zone.format(ms)).to.equal('')
    }
  })

  it('limits times to the range that it can write', () => {
    const times = [0, 1, at('9999-12-31T23:59:59+14:00'), at('9999-12-31T23:59:59-11:00'), 1.5e12]
    expect(times.map(clampTime)).to.deep.equal(times)
    expect([-1, NaN].map(clampTime)).to.deep.equal([0, 0])
    expect(clampTime(Number.MAX_SAFE_INTEGER)).to.be.lessThan(8.64e15)
  })

  it('can read every text that it writes, and writes it again unchanged, in many time zones', () => {
    const zones = ['Asia/Kathmandu', 'America/St_Johns', 'Pacific/Apia', 'Australia/Lord_Howe', 'UTC'].map(
      createTimeFormat,
    )
    fc.assert(
      fc.property(
        fc.constantFrom(...zones),
        fc.integer({ min: at('2001-01-01T00:00:00Z') / 1000, max: at('2060-01-01T00:00:00Z') / 1000 }),
        (zone, seconds) => {
          const shown = zone.format(seconds * 1000)
          const read = zone.parse(shown)
          // A local time that occurs twice is read as its first occurrence. Both occurrences have the same text.
          expect(zone.format(read ?? 0)).to.equal(shown)
          expect(Math.abs((read ?? 0) - seconds * 1000)).to.be.at.most(3_600_000)
        },
      ),
      { numRuns: 500 },
    )
  })
})
