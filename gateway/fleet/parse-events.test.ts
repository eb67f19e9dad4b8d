import { expect } from 'chai'
import { Guest } from '../../proto/gen/berth/agent/v1/guest.js'
import { HostDescription, HostMetrics } from '../../proto/gen/berth/agent/v1/host.js'
import { Operation } from '../../proto/gen/berth/agent/v1/operation.js'
import { parseDescription, parseGuest, parseMetrics, parseOperation } from './parse-events.js'

const uuid = '00000000-0000-4000-8000-000000000001'
const guest = Guest.create({ uuid, id: 1, name: 'web' })

describe('what an agent says', () => {
  for (const [name, times] of [
    ['no time', { given: Number.MIN_SAFE_INTEGER, taken: 0 }],
    ['never', { given: 0, taken: 0 }],
    ['a time', { given: 1_800_000_000_000, taken: 1_800_000_000_000 }],
    // The last second of 9999 in the zone that is last to see it, and more.
    [
      'a time after all calendars',
      { given: Number.MAX_SAFE_INTEGER, taken: Date.UTC(10_000, 0, 1, 23, 59, 59) },
    ],
  ] as const)
    it(`has ${name} within bounds`, () => {
      const { given, taken } = times
      const parsed = [
        parseGuest({ ...guest, createdAtMs: given, expiresAtMs: given }),
        parseOperation(
          Operation.create({ id: 'o', createdAtMs: given, startedAtMs: given, finishedAtMs: given }),
        ),
        parseDescription(HostDescription.create({ hostId: 'h', startedAtMs: given }), 'h'),
        parseMetrics(HostMetrics.create({ sampledAtMs: given })),
      ]
      const found = parsed.flatMap((one) =>
        Object.entries(one ?? {}).filter(([field]) => field.endsWith('AtMs')),
      )
      expect(found).to.have.length(7)
      for (const [field, ms] of found) expect(ms, field).to.equal(taken)
    })
})
