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

describe('the rules for new and changed port mappings', () => {
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
      'a host port that Berth chooses',
      { hostPort: 0 },
      [
        [0, 0],
        [22, 22],
      ],
      1,
    ],
    [
      'a container port that equals the host port',
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
      'a range with a last host port, but no last container port',
      { hostPortEnd: 2231 },
      [
        [2222, 2231],
        [22, 31],
      ],
      10,
    ],
    [
      'a range with a last container port, but no last host port',
      { containerPortEnd: 31 },
      [
        [2222, 2231],
        [22, 31],
      ],
      10,
    ],
    [
      'a range with automatically chosen host ports',
      { hostPort: 0, containerPortEnd: 31 },
      [
        [0, 0],
        [22, 31],
      ],
      10,
    ],
    [
      'a range with equal host and container ports',
      { hostPortEnd: 2231, containerPort: 0 },
      [
        [2222, 2231],
        [0, 0],
      ],
      10,
    ],
    [
      'a range of a single port',
      { hostPortEnd: 2222, containerPortEnd: 22 },
      [
        [2222, 2222],
        [22, 22],
      ],
      1,
    ],
    [
      'the highest port',
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

  it('convert an IPv6 address to its canonical form', () =>
    expect(checkPortMapping({ ...one, hostIp: '2001:DB8::0:1' }).hostIp).to.equal('2001:db8::1'))

  it('accept a description of 200 characters', () =>
    expect(checkPortMapping({ ...one, description: '😀'.repeat(200) }).length).to.equal(1))

  for (const [name, change, field] of [
    ['a protocol other than tcp and udp', { protocol: 'icmp' }, 'protocol'],
    ['a port above 65535', { hostPort: 65_536 }, 'host_port'],
    ['a port that is not an integer', { containerPort: 22.5 }, 'container_port'],
    ['a negative port', { containerPort: -1 }, 'container_port'],
    [
      'a host range and a container range of different lengths',
      { hostPortEnd: 2230, containerPortEnd: 31 },
      'host_port_end',
    ],
    ['a range that ends before it begins', { hostPortEnd: 2221 }, 'host_port_end'],
    ['a range that would end above port 65535', { hostPort: 65_535, containerPortEnd: 23 }, 'host_port_end'],
    ['a range with a last port but no first port', { hostPort: 0, hostPortEnd: 5 }, 'host_port'],
    ['a name instead of a host address', { hostIp: 'localhost' }, 'host_ip'],
    ['a CIDR instead of a host address', { hostIp: '10.0.0.0/8' }, 'host_ip'],
    ['a description of two lines', { description: 'a\nb' }, 'description'],
    ['a description with a control character of Latin-1', { description: 'a\u0085b' }, 'description'],
    ['a description of 201 characters', { description: '😀'.repeat(201) }, 'description'],
  ] as const)
    it(`refuse ${name}`, () => expect(failedField(() => checkPortMapping({ ...one, ...change }))).to.equal(field))

  const range = checkPortMapping({ ...one, hostPortEnd: 2231 })
  for (const [name, stored, change, ports] of [
    [
      'nothing if no field is sent',
      range,
      {},
      [
        [2222, 2231],
        [22, 31],
      ],
    ],
    [
      'the host ports of a range, and keep its length',
      range,
      { hostPort: 3000 },
      [
        [3000, 3009],
        [22, 31],
      ],
    ],
    [
      'the container ports of a range, and keep its length',
      range,
      { containerPort: 100 },
      [
        [2222, 2231],
        [100, 109],
      ],
    ],
    [
      'the length of both ranges if a new first and a new last host port are sent',
      range,
      { hostPort: 3000, hostPortEnd: 3001 },
      [
        [3000, 3001],
        [22, 23],
      ],
    ],
    [
      'the length of both ranges if only a new last host port is sent',
      range,
      { hostPortEnd: 2300 },
      [
        [2222, 2300],
        [22, 100],
      ],
    ],
    [
      'the length of both ranges if only a new last container port is sent',
      range,
      { containerPortEnd: 100 },
      [
        [2222, 2300],
        [22, 100],
      ],
    ],
    [
      'both first ports of a range, and keep its length',
      range,
      { hostPort: 80, containerPort: 180 },
      [
        [80, 89],
        [180, 189],
      ],
    ],
    [
      'the container ports of a range, and let Berth choose the host ports',
      range,
      { hostPort: 0, containerPort: 180 },
      [
        [0, 0],
        [180, 189],
      ],
    ],
    [
      'both first ports and the length of both ranges if only one last port is sent',
      range,
      { hostPort: 80, containerPort: 180, containerPortEnd: 181 },
      [
        [80, 81],
        [180, 181],
      ],
    ],
    [
      'both ports of a mapping of a single port',
      checkPortMapping(one),
      { hostPort: 80, containerPort: 180 },
      [
        [80, 80],
        [180, 180],
      ],
    ],
    [
      'the host port of a mapping of a single port',
      checkPortMapping(one),
      { hostPort: 80 },
      [
        [80, 80],
        [22, 22],
      ],
    ],
    [
      'an explicit host port to a port that Berth chooses',
      checkPortMapping(one),
      { hostPort: 0 },
      [
        [0, 0],
        [22, 22],
      ],
    ],
    [
      'nothing if the sent fields are undefined',
      range,
      { hostPort: undefined },
      [
        [2222, 2231],
        [22, 31],
      ],
    ],
  ] as const)
    it(`change ${name}`, () =>
      expect(portsOf(checkPortMapping(changePortMapping(stored, change)))).to.deep.equal(ports))
})

describe('the rules for the range of a host’s ports', () => {
  for (const [start, end] of [
    [1024, 65_535],
    [30_000, 30_000],
  ] as const)
    it(`accept a range from ${start} to ${end}`, () => checkPortRange('ports', { start, end }))

  for (const [start, end, field] of [
    [30_009, 30_008, 'ports.end'],
    [1023, 30_008, 'ports.start'],
    [30_009, 65_536, 'ports.end'],
    [1024.5, 30_008, 'ports.start'],
  ] as const)
    it(`refuse a range from ${start} to ${end}`, () =>
      expect(failedField(() => checkPortRange('ports', { start, end }))).to.equal(field))
})
