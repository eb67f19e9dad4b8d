import { expect } from 'chai'
import { Guest, PortMapping } from '../../proto/gen/berth/agent/v1/guest.js'
import { HostDescription, HostMetrics } from '../../proto/gen/berth/agent/v1/host.js'
import { Operation } from '../../proto/gen/berth/agent/v1/operation.js'
import { parseDescription, parseGuest, parseMetrics, parseOperation } from './parse-events.js'

const uuid = '00000000-0000-4000-8000-000000000001'
const guest = Guest.create({ uuid, id: 1, name: 'web' })

describe('the check of data from agents', () => {
  for (const [name, times] of [
    ['raises a negative time to 0', { given: Number.MIN_SAFE_INTEGER, taken: 0 }],
    ['does not change the time 0', { given: 0, taken: 0 }],
    ['does not change a valid time', { given: 1_800_000_000_000, taken: 1_800_000_000_000 }],
    // The expected time (`taken`) is the end of the year 9999 in the westernmost time zone.
    [
      'lowers a time after the year 9999 to the end of that year',
      { given: Number.MAX_SAFE_INTEGER, taken: Date.UTC(10_000, 0, 1, 23, 59, 59) },
    ],
  ] as const)
    it(name, () => {
      const { given, taken } = times
      const parsed = [
        parseGuest({ ...guest, createdAtMs: given, expiresAtMs: given }),
        parseOperation(Operation.create({ id: 'o', createdAtMs: given, startedAtMs: given, finishedAtMs: given })),
        parseDescription(HostDescription.create({ hostId: 'h', startedAtMs: given }), 'h'),
        parseMetrics(HostMetrics.create({ sampledAtMs: given })),
      ]
      const found = parsed.flatMap((one) => Object.entries(one ?? {}).filter(([field]) => field.endsWith('AtMs')))
      expect(found).to.have.length(7)
      for (const [field, ms] of found) expect(ms, field).to.equal(taken)
    })

  it('limits the lengths of texts and lists in nested data', () => {
    const long = 'x'.repeat(100_000)
    const mapping = { ...PortMapping.create(), protocol: long, description: long, hostIp: long }
    const parsed = [
      parseGuest({
        ...guest,
        statusReason: long,
        mac: long,
        portMappings: Array(2000).fill(mapping),
        ipv6Addresses: Array(2000).fill(long),
      }),
      parseOperation(Operation.fromPartial({ id: 'o', error: long, subject: { name: long, id: long } })),
      parseDescription(HostDescription.create({ hostId: 'h', kernel: long }), 'h'),
      parseMetrics(HostMetrics.create({ warnings: Array(100).fill(long) })),
    ]
    const [{ portMappings, ipv6Addresses } = Guest.create(), ...rest] = parsed as [Guest]
    expect([portMappings.length, ipv6Addresses.length]).to.deep.equal([1000, 256])
    expect(portMappings[0]).to.include({ protocol: 'tcp', hostIp: 'x'.repeat(45) })
    expect(portMappings[0]!.description).to.have.length(200)
    expect(ipv6Addresses[0]).to.have.length(45)
    expect(JSON.stringify(rest).length).to.be.below(10_000)
  })
})
