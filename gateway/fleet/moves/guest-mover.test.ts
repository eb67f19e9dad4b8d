import { expect } from 'chai'
import { Guest } from '../../../proto/gen/berth/agent/v1/guest.js'
import { HostDescription } from '../../../proto/gen/berth/agent/v1/host.js'
import { FleetState } from '../view.js'
import { GuestMover, type GuestMoverOptions } from './guest-mover.js'
import type { StoredMove } from './move-store.js'

const uuid = '00000000-0000-4000-8000-000000000001'
const guest = Guest.fromPartial({ uuid, id: 1, name: 'web', virtualization: 'lxc', status: 'running' })

/** A mover that knows one move, and a host whose agent cannot be called. */
function moverOf(move: StoredMove): GuestMover {
  const view = new FleetState()
  const times = { createdAtMs: 0, certificateNotAfterMs: 0 }
  const host = view.setHost({ id: 'a', version: 1, name: 'a', address: 'a:1', draining: false, serials: [], ...times })
  host.description = HostDescription.fromPartial({ features: ['move'] })
  const options = { view, moves: { find: async () => move }, watched: { agent: () => ({}) } }
  return new GuestMover(options as unknown as GuestMoverOptions)
}

describe('the start of a move by the gateway', function () {
  it('is not repeated at the source once the move is decided', async () => {
    const decided = { ownerId: 'b', generation: 1 }
    const mover = moverOf({ id: 'm', uuid, fromHostId: 'a', toHostId: 'b', beganAtMs: Date.now(), decided })
    const repeated = {
      operationId: 'm',
      guest: { hostId: 'a', guest },
      toHostId: 'b',
      bandwidthMbps: 0,
      offline: false,
      requestedBy: '',
    }
    const refused = await mover.begin(repeated as Parameters<GuestMover['begin']>[0]).catch((error: unknown) => error)
    expect(refused).to.include({ code: 'guest_moving' })
  })
})
