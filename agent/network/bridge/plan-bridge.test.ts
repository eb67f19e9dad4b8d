import { expect } from 'chai'
import { planBridge, planBridgeSysctls, type ObservedBridge } from './plan-bridge.js'
import { parseSubnet } from '../subnet.js'

describe('the plan of the bridge of guests', () => {
  const subnet = parseSubnet('10.64.0.0/16')
  const right: ObservedBridge = {
    flags: ['BROADCAST', 'MULTICAST', 'UP'],
    address: '02:be:0a:40:00:01',
    linkinfo: {
      info_kind: 'bridge',
      info_data: { forward_delay: 0, stp_state: 0, mcast_snooping: 0, no_linklocal_learn: 1 },
    },
    addr_info: [{ local: '10.64.0.1', prefixlen: 16 }],
  }
  for (const [name, have, commands] of [
    ['is empty if the bridge is correct', right, []],
    [
      'creates a missing bridge',
      undefined,
      [
        'link add name berth0 address 02:be:0a:40:00:01 type bridge forward_delay 0 stp_state 0 mcast_snooping 0 no_linklocal_learn 1',
        'link set dev berth0 addrgenmode none',
        'address add 10.64.0.1/16 dev berth0',
        'link set dev berth0 up',
      ],
    ],
    ['brings a bridge up if it is down', { ...right, flags: [] }, ['link set dev berth0 up']],
    [
      'corrects a MAC that differs',
      { ...right, address: '02:00:00:00:00:01' },
      ['link set dev berth0 address 02:be:0a:40:00:01'],
    ],
    [
      'adds the gateway’s address if the bridge has only another address',
      { ...right, addr_info: [{ local: '10.64.0.1', prefixlen: 24 }] },
      ['address add 10.64.0.1/16 dev berth0'],
    ],
    [
      'turns off the spanning tree',
      {
        ...right,
        linkinfo: {
          ...right.linkinfo,
          info_data: { ...right.linkinfo?.info_data, stp_state: 1, forward_delay: 1500 },
        },
      },
      ['link set dev berth0 type bridge forward_delay 0 stp_state 0'],
    ],
  ] as [string, ObservedBridge | undefined, string[]][])
    it(name, () => expect(planBridge('berth0', subnet, have)).to.deep.equal(commands))

  it('enables IP forwarding first, because this resets other kernel settings', () => {
    const [first, ...rest] = planBridgeSysctls('berth0')
    expect(first).to.deep.equal({ path: 'net/ipv4/ip_forward', value: 1 })
    expect(rest.map(({ path }) => path)).to.include('net/ipv4/conf/berth0/route_localnet')
  })

  it('changes no settings of other bridges', () => {
    for (const { path } of planBridgeSysctls('berth0'))
      expect(path).to.match(/\/berth0\/|^net\/ipv4\/ip_forward$|gc_thresh\d$/)
  })
})
