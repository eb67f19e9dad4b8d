import { expect } from 'chai'
import { planAssign, type GuestInterface, type Ipv6Assignment } from './plan-assign.js'

const eth0 = (...addresses: string[]): GuestInterface => ({
  ifindex: 2,
  link_index: 40,
  ifname: 'eth0',
  addr_info: addresses.map((local) => ({ family: 'inet6', local })),
})
const lo: GuestInterface = { ifindex: 1, ifname: 'lo', addr_info: [{ family: 'inet6', local: '::1' }] }
const route = 'route add default via fe80::1 dev if2'

describe('the plan of IPv6 addresses on the interface of a guest', () => {
  for (const [name, shown, change, commands] of [
    ['the first address', [lo, eth0('fe80::2')], {}, ['address add 2001:db8::5/128 dev if2 nodad', route]],
    ['an address that the interface already has', [lo, eth0('2001:db8::5')], {}, []],
    [
      'an address to add and an address to remove',
      [lo, eth0('2001:db8::5', '2001:db8::6')],
      { ipv6Addresses: ['2001:db8::5', '2001:db8::7'], gone: ['2001:db8::6', '2001:db8::8'] },
      ['address delete 2001:db8::6/128 dev if2', 'address add 2001:db8::7/128 dev if2 nodad preferred_lft 0', route],
    ],
    [
      'several addresses, the first of which is the source address',
      [lo, eth0()],
      { ipv6Addresses: ['2001:db8::5', '2001:db8::7'] },
      ['address add 2001:db8::5/128 dev if2 nodad', 'address add 2001:db8::7/128 dev if2 nodad preferred_lft 0', route],
    ],
    ['an address that was added inside the guest (it stays)', [lo, eth0('2001:db8::5', '2001:db8::6')], {}, []],
    ['an interface that the guest moved to another namespace', [lo], {}, []],
    ['an interface that belongs to another guest', [lo, { ...eth0(), link_index: 41 }], {}, []],
  ] as [string, GuestInterface[], Partial<Ipv6Assignment>, string[]][])
    it(`contains ${commands.length === 0 ? 'no' : 'the right'} commands for ${name}`, () => {
      const of = { hostIndex: 40, ipv6Addresses: ['2001:db8::5'], gone: [], gateway6: 'fe80::1', ...change }
      expect(planAssign(shown, of)).to.deep.equal(commands)
    })
})
