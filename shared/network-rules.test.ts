import { expect } from 'chai'
import fc from 'fast-check'
import { BerthError } from './errors.js'
import {
  changePortMapping,
  checkFirewall,
  checkPortMapping,
  checkTrafficLimit,
  type WantedMapping,
  type WantedRule,
} from './network-rules.js'

function failedField(check: () => unknown): string | undefined {
  try {
    check()
  } catch (error) {
    if (error instanceof BerthError && error.code === 'invalid_field') return error.field
    throw error
  }
  throw new Error('accepted')
}

const one: WantedMapping = {
  ...{ protocol: 'tcp', hostIp: '', description: '' },
  ...{ hostPort: 2222, hostPortEnd: 0, containerPort: 22, containerPortEnd: 0 },
}
const portsOf = ({ hostPort, hostPortEnd, containerPort, containerPortEnd }: WantedMapping) => [
  [hostPort, hostPortEnd],
  [containerPort, containerPortEnd],
]

describe('rules of a port mapping', () => {
  for (const [name, change, ports, length] of [
    [
      'a single port',
      {},
      [
        [2222, 2222],
        [22, 22],
      ],
      1,
    ],
    [
      'a port to be picked',
      { hostPort: 0 },
      [
        [0, 0],
        [22, 22],
      ],
      1,
    ],
    [
      'the same port inside',
      { containerPort: 0 },
      [
        [2222, 2222],
        [0, 0],
      ],
      1,
    ],
    [
      'a range',
      { hostPortEnd: 2231, containerPortEnd: 31 },
      [
        [2222, 2231],
        [22, 31],
      ],
      10,
    ],
    [
      'a range by its outer end',
      { hostPortEnd: 2231 },
      [
        [2222, 2231],
        [22, 31],
      ],
      10,
    ],
    [
      'a range by its inner end',
      { containerPortEnd: 31 },
      [
        [2222, 2231],
        [22, 31],
      ],
      10,
    ],
    [
      'a range to be picked',
      { hostPort: 0, containerPortEnd: 31 },
      [
        [0, 0],
        [22, 31],
      ],
      10,
    ],
    [
      'a range to the same ports',
      { hostPortEnd: 2231, containerPort: 0 },
      [
        [2222, 2231],
        [0, 0],
      ],
      10,
    ],
    [
      'ends that name one port',
      { hostPortEnd: 2222, containerPortEnd: 22 },
      [
        [2222, 2222],
        [22, 22],
      ],
      1,
    ],
    [
      'the last port',
      { hostPort: 65_535 },
      [
        [65_535, 65_535],
        [22, 22],
      ],
      1,
    ],
  ] as const)
    it(`take ${name}`, () => {
      const checked = checkPortMapping({ ...one, ...change })
      expect(portsOf(checked)).to.deep.equal(ports)
      expect(checked.length).to.equal(length)
    })

  it('write an address as it is written', () =>
    expect(checkPortMapping({ ...one, hostIp: '2001:DB8::0:1' }).hostIp).to.equal('2001:db8::1'))

  for (const [name, change, field] of [
    ['another protocol', { protocol: 'icmp' }, 'protocol'],
    ['a port above all', { hostPort: 65_536 }, 'host_port'],
    ['half a port', { containerPort: 22.5 }, 'container_port'],
    ['a negative port', { containerPort: -1 }, 'container_port'],
    ['ranges of different length', { hostPortEnd: 2230, containerPortEnd: 31 }, 'host_port_end'],
    ['a range that ends before it begins', { hostPortEnd: 2221 }, 'host_port_end'],
    ['a range that runs out of ports', { hostPort: 65_535, containerPortEnd: 23 }, 'host_port_end'],
    ['an end without a beginning', { hostPort: 0, hostPortEnd: 5 }, 'host_port'],
    ['a name for an address', { hostIp: 'localhost' }, 'host_ip'],
    ['a CIDR for an address', { hostIp: '10.0.0.0/8' }, 'host_ip'],
    ['a description of two lines', { description: 'a\nb' }, 'description'],
  ] as const)
    it(`refuse ${name}`, () =>
      expect(failedField(() => checkPortMapping({ ...one, ...change }))).to.equal(field))

  const range = checkPortMapping({ ...one, hostPortEnd: 2231 })
  for (const [name, stored, change, ports] of [
    [
      'nothing sent',
      range,
      {},
      [
        [2222, 2231],
        [22, 31],
      ],
    ],
    [
      'a range moved outside',
      range,
      { hostPort: 3000 },
      [
        [3000, 3009],
        [22, 31],
      ],
    ],
    [
      'a range moved inside',
      range,
      { containerPort: 100 },
      [
        [2222, 2231],
        [100, 109],
      ],
    ],
    [
      'a range moved outside, cut',
      range,
      { hostPort: 3000, hostPortEnd: 3001 },
      [
        [3000, 3001],
        [22, 23],
      ],
    ],
    [
      'a range grown outside',
      range,
      { hostPortEnd: 2300 },
      [
        [2222, 2300],
        [22, 100],
      ],
    ],
    [
      'a range grown inside',
      range,
      { containerPortEnd: 100 },
      [
        [2222, 2300],
        [22, 100],
      ],
    ],
    [
      'both ports without ends',
      range,
      { hostPort: 80, containerPort: 180 },
      [
        [80, 89],
        [180, 189],
      ],
    ],
    [
      'both ports without ends, one to be picked',
      range,
      { hostPort: 0, containerPort: 180 },
      [
        [0, 0],
        [180, 189],
      ],
    ],
    [
      'both ports, with one end',
      range,
      { hostPort: 80, containerPort: 180, containerPortEnd: 181 },
      [
        [80, 81],
        [180, 181],
      ],
    ],
    [
      'both ports of a single one',
      checkPortMapping(one),
      { hostPort: 80, containerPort: 180 },
      [
        [80, 80],
        [180, 180],
      ],
    ],
    [
      'a single port moved',
      checkPortMapping(one),
      { hostPort: 80 },
      [
        [80, 80],
        [22, 22],
      ],
    ],
    [
      'a single port picked anew',
      checkPortMapping(one),
      { hostPort: 0 },
      [
        [0, 0],
        [22, 22],
      ],
    ],
    [
      'fields that are undefined',
      range,
      { hostPort: undefined },
      [
        [2222, 2231],
        [22, 31],
      ],
    ],
  ] as const)
    it(`changed: ${name}`, () =>
      expect(portsOf(checkPortMapping(changePortMapping(stored, change)))).to.deep.equal(ports))
})

const rule: WantedRule = {
  ...{ id: '', direction: 'in', protocol: 'tcp', action: 'ACCEPT', network: 'all' },
  ...{ sourceIp: '', port: '', description: '' },
}
const checkRule = (change: Partial<WantedRule>) =>
  checkFirewall({ enabled: true, defaultAction: 'DROP', rules: [rule, { ...rule, ...change }] }).rules[1]!

describe('rules of a firewall', () => {
  for (const [name, change, checked] of [
    ['a port', { port: '80' }, { port: '80' }],
    ['a list with blanks', { port: ' 443, 80 ' }, { port: '80,443' }],
    ['a range', { port: '1000-2000' }, { port: '1000-2000' }],
    ['a mixed list that overlaps', { port: '90,80-100,95-110,22,22' }, { port: '22,80-110' }],
    ['neighbours', { port: '80,81' }, { port: '80,81' }],
    ['a range of one', { protocol: 'udp', port: '53-53' }, { port: '53' }],
    ['an address', { network: 'ipv4', sourceIp: ' 192.0.2.1 ' }, { sourceIp: '192.0.2.1' }],
    ['a CIDR with host bits', { sourceIp: '10.1.2.3/8' }, { sourceIp: '10.0.0.0/8' }],
    [
      'a range of addresses',
      { sourceIp: '2001:DB8::1-2001:db8::F' },
      { sourceIp: '2001:db8::1-2001:db8::f' },
    ],
    ['blanks for nothing', { sourceIp: ' ', port: ' ' }, { sourceIp: '', port: '' }],
    ['icmp', { protocol: 'icmp', direction: 'out', action: 'DROP', network: 'ipv6' }, { protocol: 'icmp' }],
    ['an id', { id: 'r-1_A' }, { id: 'r-1_A' }],
  ] as const)
    it(`take ${name}`, () => expect(checkRule(change)).to.deep.include(checked))

  for (const [change, field] of [
    ...[{ port: '0' }, { port: '65536' }, { port: '80,' }, { port: '90-80' }, { port: 'ssh' }].map(
      (change) => [change, 'port'] as const,
    ),
    ...[{ port: '80;drop' }, { port: '1-2-3' }, { port: Array(51).fill('1').join(',') }].map(
      (change) => [change, 'port'] as const,
    ),
    [{ protocol: 'icmp', port: '80' }, 'port'],
    [{ protocol: 'all', port: '80' }, 'port'],
    [{ protocol: 'sctp' }, 'protocol'],
    [{ direction: 'forward' }, 'direction'],
    [{ action: 'accept' }, 'action'],
    [{ network: 'inet' }, 'network'],
    [{ network: 'ipv4', sourceIp: '::1' }, 'source_ip'],
    [{ network: 'ipv6', sourceIp: '10.0.0.0/8' }, 'source_ip'],
    [{ port: '80\n' }, 'port'],
    ...['\n', '\t', '\u2028'].map((odd) => [{ sourceIp: `10.0.0.1${odd}` }, 'source_ip'] as const),
    [{ sourceIp: 'example.org' }, 'source_ip'],
    [{ sourceIp: '10.0.0.1, 10.0.0.2' }, 'source_ip'],
    [{ description: 'a\u2028b' }, 'description'],
    [{ description: 'x'.repeat(201) }, 'description'],
    [{ id: 'a b' }, 'id'],
  ] as const)
    it(`refuse ${JSON.stringify(change).slice(0, 60)}`, () =>
      expect(failedField(() => checkRule(change))).to.equal(`rules.1.${field}`))

  it('refuse an id that is there twice, another default and too many rules', () => {
    const check = (change: object) => () =>
      checkFirewall({ enabled: true, defaultAction: 'ACCEPT', rules: [], ...change })
    expect(failedField(check({ rules: [rule, { ...rule, id: 'a' }, { ...rule, id: 'a' }] }))).to.equal(
      'rules.1.id',
    )
    expect(failedField(check({ defaultAction: 'REJECT' }))).to.equal('default_action')
    expect(failedField(check({ rules: Array(201).fill(rule) }))).to.equal('rules')
  })

  it('let nothing through that could end an nft statement, and are stable', () => {
    const safe = /^[0-9a-f.:,/-]*$/
    const text = fc.string({ unit: fc.constantFrom(...'0123456789abcdef.:-/, ;{}\n"$') })
    fc.assert(
      fc.property(text, text, (sourceIp, port) => {
        try {
          const checked = checkRule({ sourceIp, port })
          expect(checked.sourceIp + checked.port).to.match(safe)
          expect(checkRule(checked)).to.deep.equal(checked)
        } catch (error) {
          expect(error).to.be.instanceOf(BerthError)
        }
      }),
      { numRuns: 2000 },
    )
  })
})

describe('rules of a traffic limit', () => {
  it('take what is within bounds, and what is not sent', () => {
    checkTrafficLimit({})
    checkTrafficLimit({ monthlyGb: 0, inGb: 1, outGb: 1_000_000_000, throttleMbps: 400_000, resetDay: 28 })
  })
  for (const [wanted, field] of [
    [{ monthlyGb: -1 }, 'monthly_traffic_gb'],
    [{ inGb: 0.5 }, 'traffic_in_gb'],
    [{ outGb: 1_000_000_001 }, 'traffic_out_gb'],
    [{ throttleMbps: 400_001 }, 'traffic_throttle_mbps'],
    [{ resetDay: 29 }, 'traffic_reset_day'],
    [{ resetDay: NaN }, 'traffic_reset_day'],
  ] as const)
    it(`refuse ${JSON.stringify(wanted)}`, () =>
      expect(failedField(() => checkTrafficLimit(wanted))).to.equal(field))
})
