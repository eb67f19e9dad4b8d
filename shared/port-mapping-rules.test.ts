import { expect } from 'chai'
import { failedField } from '../test/support/failed-field.js'
import { changePortMapping, checkPortMapping, checkPortRange, type WantedMapping } from './port-mapping-rules.js'

const one: WantedMapping = {
  protocol: 'tcp',
  hostIp: '',
  description: '',
  hostPort: 2222,
  hostPortEnd: 0,
  containerPort: 22,
  containerPortEnd: 0,
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
      'a port that is picked',
      { hostPort: 0 },
      [
        [0, 0],
        [22, 22],
      ],
      1,
    ],
    [
      'the same container port',
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
      'a range by its host port end',
      { hostPortEnd: 2231 },
      [
        [2222, 2231],
        [22, 31],
      ],
      10,
    ],
    [
      'a range by its container port end',
      { containerPortEnd: 31 },
      [
        [2222, 2231],
        [22, 31],
      ],
      10,
    ],
    [
      'a range that is picked',
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
    it(`accept ${name}`, () => {
      const checked = checkPortMapping({ ...one, ...change })
      expect(portsOf(checked)).to.deep.equal(ports)
      expect(checked.length).to.equal(length)
    })

  it('preserve the spelling of an address', () =>
    expect(checkPortMapping({ ...one, hostIp: '2001:DB8::0:1' }).hostIp).to.equal('2001:db8::1'))

  it('accept a description of 200 characters', () =>
    expect(checkPortMapping({ ...one, description: '😀'.repeat(200) }).length).to.equal(1))

  for (const [name, change, field] of [
    ['another protocol', { protocol: 'icmp' }, 'protocol'],
    ['a port above 65535', { hostPort: 65_536 }, 'host_port'],
    ['half a port', { containerPort: 22.5 }, 'container_port'],
    ['a negative port', { containerPort: -1 }, 'container_port'],
    ['ranges of different length', { hostPortEnd: 2230, containerPortEnd: 31 }, 'host_port_end'],
    ['a range that ends before it begins', { hostPortEnd: 2221 }, 'host_port_end'],
    ['a range that runs out of ports', { hostPort: 65_535, containerPortEnd: 23 }, 'host_port_end'],
    ['an end without a beginning', { hostPort: 0, hostPortEnd: 5 }, 'host_port'],
    ['a name for an address', { hostIp: 'localhost' }, 'host_ip'],
    ['a CIDR for an address', { hostIp: '10.0.0.0/8' }, 'host_ip'],
    ['a description of two lines', { description: 'a\nb' }, 'description'],
    ['a control character of Latin-1', { description: 'a\u0085b' }, 'description'],
    ['a description of 201 characters', { description: '😀'.repeat(201) }, 'description'],
  ] as const)
    it(`refuse ${name}`, () => expect(failedField(() => checkPortMapping({ ...one, ...change }))).to.equal(field))

  const range = checkPortMapping({ ...one, hostPortEnd: 2231 })
  for (const [name, stored, change, ports] of [
    [
      'no fields',
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
      'a host range extended',
      range,
      { hostPortEnd: 2300 },
      [
        [2222, 2300],
        [22, 100],
      ],
    ],
    [
      'a container range extended',
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
      'both ports of a single mapping',
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
      'a single port picked again',
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

describe('rules of a host’s range of ports', () => {
  for (const [start, end] of [
    [1024, 65_535],
    [30_000, 30_000],
  ] as const)
    it(`accept ${start} to ${end}`, () => checkPortRange('ports', { start, end }))

  for (const [start, end, field] of [
    [30_009, 30_008, 'ports.end'],
    [1023, 30_008, 'ports.start'],
    [30_009, 65_536, 'ports.end'],
    [1024.5, 30_008, 'ports.start'],
  ] as const)
    it(`refuse ${start} to ${end}`, () =>
      expect(failedField(() => checkPortRange('ports', { start, end }))).to.equal(field))
})
