import { expect } from 'chai'
import { Guest } from '../../../proto/gen/berth/agent/v1/guest.js'
import { HostDescription } from '../../../proto/gen/berth/agent/v1/host.js'
import { FleetState } from '../view.js'
import { GuestMover, type GuestMoverOptions } from './guest-mover.js'
import type { StoredMove } from './move-store.js'

const uuid = '00000000-0000-4000-8000-000000000001'
const other = '00000000-0000-4000-8000-000000000002'
const guest = Guest.fromPartial({ uuid, id: 1, name: 'web', virtualization: 'lxc', status: 'running' })

function viewOf(): FleetState {
  const view = new FleetState()
  const times = { createdAtMs: 0, certificateNotAfterMs: 0 }
  const host = view.setHost({ id: 'a', version: 1, name: 'a', address: 'a:1', draining: false, serials: [], ...times })
  host.description = HostDescription.fromPartial({ features: ['move', 'move-offline'] })
  return view
}

/** A mover that knows one move, and a host whose agent cannot be called. */
function moverOf(move: StoredMove): GuestMover {
  const options = { view: viewOf(), moves: { find: async () => move }, watched: { agent: () => ({}) } }
  return new GuestMover(options as unknown as GuestMoverOptions)
}

/** Returns a mover, with `guest` and `partner` on one host, and a list with the `alsoMoving` of each attempt. */
function recordingMover(partner: Guest): [GuestMover, unknown[]] {
  const requests: unknown[] = []
  const view = viewOf()
  for (const value of [guest, partner]) view.apply(view.findState('a')!, { $case: 'guest', value })
  const placement = {
    reserveTarget: async (_id: string, _guest: unknown, { alsoMoving }: { alsoMoving?: readonly string[] }) => {
      requests.push(alsoMoving)
      throw new Error('no host is left')
    },
    release: async () => undefined,
  }
  const watched = { agent: () => ({}), expectedConnections: async () => undefined }
  const options = { view, placement, moves: { find: async () => undefined }, watched }
  return [new GuestMover(options as unknown as GuestMoverOptions), requests]
}

describe('the start of a move', function () {
  it('is refused if a stored move has the same id and the new owner of its guest is already decided', async () => {
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

  for (const [name, partner, moves] of [
    ['assumes that another guest of the request also moves if the other guest can move', {}, true],
    [
      'does not assume that another guest of the request moves if the other guest is a running virtual machine',
      { virtualization: 'kvm' },
      false,
    ],
    [
      'does not assume that another guest of the request moves if the other guest is in rescue mode',
      { boot: { mode: 'rescue' } },
      false,
    ],
  ] as const)
    it(name, async () => {
      const [mover, requests] = recordingMover(
        Guest.fromPartial({ ...guest, ...partner, uuid: other, id: 2, name: 'db' }),
      )
      const request = { operationId: 'm', guest: { hostId: 'a', guest }, alsoMoving: [uuid, other], offline: false }
      await mover.begin(request as unknown as Parameters<GuestMover['begin']>[0]).catch(() => undefined)
      expect(requests).to.deep.equal([moves ? [uuid, other] : [uuid]])
    })
})

describe('the suggested moves', () => {
  it('are planned only once if several callers request them at the same time', async () => {
    let plans = 0
    const placement = { planBalance: async () => void plans++ }
    const mover = new GuestMover({ placement } as unknown as GuestMoverOptions)
    await Promise.all([mover.suggest(), mover.suggest()])
    expect(plans).to.equal(1)
  })
})
