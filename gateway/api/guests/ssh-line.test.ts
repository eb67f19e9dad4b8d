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
      'uses a mapped port at the public name of the host',
      mapped,
      'node1.example.com',
      'ssh -p 20022 root@node1.example.com',
    ],
    ['uses a mapped port at the IPv6 address of the host', mapped, '2001:db8::7', 'ssh -p 20022 root@2001:db8::7'],
    ['is empty if the address of the host is not known', mapped, '', ''],
    [
      'uses the public IPv4 address of the guest',
      { ...mapped, publicIpv4s: ['203.0.113.9'] },
      'node1',
      'ssh root@203.0.113.9',
    ],
    [
      'uses the host address of the mapping to the SSH port',
      { ...mapped, portMappings: [mapping({ hostIp: '203.0.113.8' })] },
      'node1',
      'ssh -p 20022 root@203.0.113.8',
    ],
    [
      'is empty if the mapping is at a loopback address',
      { ...mapped, portMappings: [mapping({ hostIp: '127.0.0.1' })] },
      'node1',
      '',
    ],
    [
      'ignores the host address of a mapping to a port other than the SSH port',
      {
        ...mapped,
        portMappings: [mapping({ hostPort: 80, hostPortEnd: 80, hostIp: '203.0.113.8' }), mapping()],
      },
      'node1',
      'ssh -p 20022 root@node1',
    ],
    ['is empty if the guest has neither a mapping nor a public address', bare, 'node1', ''],
    [
      'uses the IPv6 address of the guest if the guest has no other address',
      { ...bare, ipv6Addresses: ['2001:db8::9'] },
      'node1',
      'ssh root@2001:db8::9',
    ],
    [
      'is empty if the agent reports an invalid address of the guest',
      { ...bare, publicIpv4s: ['$(reboot)'] },
      'node1',
      '',
    ],
  ] as const)
    it(name, () => expect(sshCommand(planSshPlace({ ...guest } as never, hostAddress))).to.equal(command))
})
