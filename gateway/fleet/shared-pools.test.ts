import { expect } from 'chai'
import { Guest } from '../../proto/gen/berth/agent/v1/guest.js'
import { HostDescription } from '../../proto/gen/berth/agent/v1/host.js'
import { sharedPoolsOf } from './shared-pools.js'
import { FleetState } from './view.js'

const pool = { name: 'uplink', range: '203.0.113.0/24' }

function viewOf(guests: Readonly<Record<string, Guest>>): FleetState {
  const view = new FleetState()
  const times = { createdAtMs: 0, certificateNotAfterMs: 0 }
  for (const id of ['a', 'b'])
    view.setHost({ id, version: 1, name: id, address: `${id}:1`, draining: false, serials: [], ...times }).description =
      HostDescription.fromPartial({ sharedPools: [pool] })
  for (const [id, value] of Object.entries(guests)) view.apply(view.findState(id)!, { $case: 'guest', value })
  return view
}

const guestOf = (n: number, ...publicIpv4s: string[]) =>
  Guest.fromPartial({ uuid: `00000000-0000-4000-8000-00000000000${n}`, id: n, name: `guest-${n}`, publicIpv4s })

describe('the shared pools that a guest may use after it leaves a host', function () {
  for (const [name, own, other, expected] of [
    ['are those of the host', ['203.0.113.7'], ['203.0.113.8'], [pool]],
    ['are empty if a guest of another host has the same address', ['203.0.113.7'], ['203.0.113.7'], []],
    ['are empty if the guest has no public IPv4 address', [], [], []],
  ] as const)
    it(name, () => {
      const guest = guestOf(1, ...own)
      expect(sharedPoolsOf(viewOf({ a: guest, b: guestOf(2, ...other) }), 'a', guest)).to.deep.equal(expected)
    })
})
