import { expect } from 'chai'
import { Guest } from '../../proto/gen/berth/agent/v1/guest.js'
import { HostDescription } from '../../proto/gen/berth/agent/v1/host.js'
import { refuseSharedIpv6, sharedPoolsOf } from './shared-pools.js'
import { FleetState } from './view.js'

const pool = { name: 'uplink', range: '203.0.113.0/24' }
const pool6 = { name: 'uplink-6', range: '2001:db8:1::/64' }
const poolsOf = (id: string) => [pool, pool6, { name: `only-${id}`, range: '2001:db8:3::/64' }]

function viewOf(guests: Readonly<Record<string, Guest>>): FleetState {
  const view = new FleetState()
  const times = { createdAtMs: 0, certificateNotAfterMs: 0 }
  for (const id of ['a', 'b'])
    view.setHost({ id, version: 1, name: id, address: `${id}:1`, draining: false, serials: [], ...times }).description =
      HostDescription.fromPartial({ sharedPools: poolsOf(id) })
  for (const [id, value] of Object.entries(guests)) view.apply(view.findState(id)!, { $case: 'guest', value })
  return view
}

const guestOf = (n: number, ...addresses: string[]) =>
  Guest.fromPartial({
    uuid: `00000000-0000-4000-8000-00000000000${n}`,
    id: n,
    name: `guest-${n}`,
    publicIpv4s: addresses.filter((address) => !address.includes(':')),
    ipv6Addresses: addresses.filter((address) => address.includes(':')),
  })

describe('the shared pools that a guest may use after it leaves a host', function () {
  for (const [name, own, other, expected] of [
    ['are those of the host', ['203.0.113.7'], ['203.0.113.8'], poolsOf('a')],
    ['are those of the host for a guest with only IPv6', ['2001:db8:1::7'], ['2001:db8:1::8'], poolsOf('a')],
    ['are empty if a guest of another host has the same IPv6 address', ['2001:db8:1::7'], ['2001:db8:1::7'], []],
    [
      'are those of the host if only a private IPv6 address is the same',
      ['198.51.100.7', 'fd00::7'],
      ['fd00::7'],
      poolsOf('a'),
    ],
    ['are empty if a guest of another host has the same address', ['203.0.113.7'], ['203.0.113.7'], []],
    ['are empty if the guest has no public address', [], [], []],
  ] as const)
    it(name, () => {
      const guest = guestOf(1, ...own)
      expect(sharedPoolsOf(viewOf({ a: guest, b: guestOf(2, ...other) }), 'a', guest)).to.deep.equal(expected)
    })
})

describe('an IPv6 address that a guest is to get by name', function () {
  const [inside, outside, unshared] = ['2001:db8:1::7', '2001:db8:2::7', '2001:db8:3::7']
  for (const [name, holder, wanted, isRefused] of [
    ['is refused if a guest of another host of the shared pool has it', 'b', inside, true],
    ['is left to the agent if a guest of the same host has it', 'a', inside, false],
    ['is accepted if no guest has it', 'b', '2001:db8:1::8', false],
    ['is accepted outside the shared pools', 'b', outside, false],
    ['is accepted in a pool that the other host does not serve', 'b', unshared, false],
  ] as const)
    it(name, () => {
      const view = viewOf({ [holder]: guestOf(1, inside, outside, unshared) })
      const check = (): void => refuseSharedIpv6(view, 'a', [wanted])
      if (isRefused) expect(check).to.throw(`${inside} is assigned`)
      else check()
    })
})
