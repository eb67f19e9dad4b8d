import { expect } from 'chai'
import { PortMapping } from '../../../proto/gen/berth/agent/v1/guest.js'
import { planSshPlace, sshCommand } from './ssh-line.js'

const mapping = (more: Partial<PortMapping> = {}): PortMapping =>
  PortMapping.fromPartial({
    protocol: 'tcp',
    containerPort: 22,
    containerPortEnd: 22,
    hostPort: 20_022,
    hostPortEnd: 20_022,
    ...more,
  })
const mapped = { publicIpv4s: [], ipv6Addresses: [], sshPort: 20_022, portMappings: [mapping()] }
const bare = { publicIpv4s: [], ipv6Addresses: [], sshPort: 0, portMappings: [] }

describe('the SSH command of a guest', () => {
  for (const [name, guest, hostAddress, command] of [
    [
      'a mapped port at the public address of its host',
      mapped,
      'node1.example.com',
      'ssh -p 20022 root@node1.example.com',
    ],
    ['the IPv6 address of its host', mapped, '2001:db8::7', 'ssh -p 20022 root@2001:db8::7'],
    ['nothing if the address of its host is not known', mapped, '', ''],
    ['its own public IPv4 address', { ...mapped, publicIpv4s: ['203.0.113.9'] }, 'node1', 'ssh root@203.0.113.9'],
    [
      'the host address of its mapping',
      { ...mapped, portMappings: [mapping({ hostIp: '203.0.113.8' })] },
      'node1',
      'ssh -p 20022 root@203.0.113.8',
    ],
    ['nothing for a mapping at loopback', { ...mapped, portMappings: [mapping({ hostIp: '127.0.0.1' })] }, 'node1', ''],
    [
      'no host address of mappings of other ports',
      {
        ...mapped,
        portMappings: [mapping({ hostPort: 80, hostPortEnd: 80, hostIp: '203.0.113.8' }), mapping()],
      },
      'node1',
      'ssh -p 20022 root@node1',
    ],
    ['nothing without a mapping and a public address', bare, 'node1', ''],
    [
      'its IPv6 address if it has no other',
      { ...bare, ipv6Addresses: ['2001:db8::9'] },
      'node1',
      'ssh root@2001:db8::9',
    ],
    ['nothing if the reported address is invalid', { ...bare, publicIpv4s: ['$(reboot)'] }, 'node1', ''],
  ] as const)
    it(`uses ${name}`, () => expect(sshCommand(planSshPlace({ ...guest } as never, hostAddress))).to.equal(command))
})
