import { expect } from 'chai'
import { Guest } from '../../../proto/gen/berth/agent/v1/guest.js'
import { FleetState } from '../view.js'
import { LostMoves } from './lost-moves.js'
import type { StoredMove } from './move-store.js'

const uuid = '00000000-0000-4000-8000-000000000001'
const stored: StoredMove = { id: 'm', uuid, fromHostId: 'a', toHostId: 'b', beganAtMs: 0 }

describe('moves that the store has lost', () => {
  let view: FleetState
  let lost: LostMoves
  beforeEach(() => {
    lost = new LostMoves()
    view = new FleetState()
    const times = { createdAtMs: 0, certificateNotAfterMs: 0 }
    for (const id of ['a', 'b'])
      view.setOnline(
        view.setHost({ id, version: 1, name: id, address: `${id}:1`, draining: false, serials: [], ...times }),
        true,
      )
    show('a', 'handed_over')
  })

  function show(hostId: string, role: string): void {
    const guest = Guest.fromPartial({ uuid, id: 1, name: 'web', ownership: { role, generation: 1, moveId: 'm' } })
    view.apply(view.findState(hostId)!, { $case: 'guest', value: guest })
  }
  const find = (nowMs: number, moves: StoredMove[] = []): string[] =>
    lost
      .find([...view.states()], moves, nowMs)
      .map(({ hostId, generation, moveId }) => `${hostId} ${generation} ${moveId}`)

  it('are found when a guest has had no owner for two minutes', () => {
    expect(find(0)).to.deep.equal([])
    expect(find(119_999)).to.deep.equal([])
    expect(find(120_000)).to.deep.equal(['a 1 m'])
  })

  it('do not include a move that is still in the store', () => {
    expect(find(0, [stored])).to.deep.equal([])
    expect(find(500_000, [stored])).to.deep.equal([])
    expect(find(500_001)).to.deep.equal([])
  })

  it('are not assumed for a guest with a recorded owner, even if the fleet view shows the guest only as a conflict', () => {
    show('b', 'owner')
    expect(view.findState('b')!.conflicts.size).to.equal(1)
    find(0)
    expect(find(500_000)).to.deep.equal([])
  })

  it('are not found while a possible owner of the guest is offline', () => {
    view.setOnline(view.findState('b')!, false)
    find(0)
    expect(find(500_000)).to.deep.equal([])
  })
})
