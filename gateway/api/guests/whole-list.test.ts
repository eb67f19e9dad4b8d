import { expect } from 'chai'
import type { FleetView, GuestView } from '../../fleet/contract.js'
import { GuestBlocks } from '../../fleet/lists/guest-blocks.js'
import { WholeList } from './whole-list.js'

describe('the list of all guests', () => {
  it('lets other work run each time it has rendered a few changed rows', async () => {
    const blocks = new GuestBlocks()
    const guests = Array.from({ length: 40 }, (_, n) => ({ guest: { id: n * 256 } }) as GuestView)
    for (const guest of guests) blocks.set(guest)
    const view = {
      get guestBlocks() {
        return blocks.inOrder()
      },
      guestsVersion: 1,
    } as unknown as FleetView
    let [turn, changed] = [0, false]
    const rowsByTurn = new Map<number, number>()
    const list = new WholeList(view, ({ guest }) => {
      rowsByTurn.set(turn, (rowsByTurn.get(turn) ?? 0) + 1)
      // Rendering one row takes longer than a time slice.
      for (const until = performance.now() + 4; performance.now() < until;);
      return String(guest.id)
    })
    const reading = list.read().then(() => (turn = Infinity))
    while (turn !== Infinity) {
      if (turn === 30 && !changed) {
        changed = true
        for (const { guest } of guests.slice(0, 20)) blocks.touch(guest.id)
      }
      await new Promise(setImmediate)
      turn++
    }
    await reading
    expect(changed).to.equal(true)
    expect(Math.max(...rowsByTurn.values()), 'rows in one turn').to.be.at.most(4)
  })
})
