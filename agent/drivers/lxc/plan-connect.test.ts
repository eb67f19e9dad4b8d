import { expect } from 'chai'
import { planConnect } from './plan-connect.js'

describe('the plan of a network interface for a running container', () => {
  const nic = {
    device: 'bt7',
    bridge: 'berth0',
    mac: '02:00:00:00:00:07',
    ipv4: '10.64.0.7',
    prefixLength: 16,
    gateway: '10.64.0.1',
    gateway6: 'fe80::1',
    ipv6Addresses: ['2001:db8::7', '2001:db8::8'],
  }

  it('gives the host’s end of the veth pair its final name only after the guest’s end is configured', () => {
    expect(planConnect(nic, 4711)).to.deep.equal({
      create: ['link add bt7n type veth peer name eth0 address 02:00:00:00:00:07 netns 4711'],
      inside: [
        'link set dev eth0 up',
        'address add 10.64.0.7/16 brd 10.64.255.255 dev eth0',
        'route add default via 10.64.0.1 dev eth0',
        'address add 2001:db8::7/128 dev eth0 nodad',
        'address add 2001:db8::8/128 dev eth0 nodad preferred_lft 0',
        'route add default via fe80::1 dev eth0',
      ],
      join: 'link set dev bt7n name bt7 master berth0 up',
    })
  })

  it('contains no IPv6 commands for a guest without IPv6 addresses', () => {
    expect(planConnect({ ...nic, ipv6Addresses: [] }, 1).inside.join()).to.not.contain('fe80')
  })
})
