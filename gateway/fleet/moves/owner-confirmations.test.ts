import { expect } from 'chai'
import { pino } from 'pino'
import { OwnerConfirmations, type OwnerConfirmationsOptions } from './owner-confirmations.js'

describe('the confirmation of owners to a host that connects', () => {
  it('contains the guests that other hosts own, except guests that are moving away from the connecting host', async () => {
    const confirmed: unknown[] = []
    const host = {
      record: { id: 'a' },
      online: true,
      areOwnersConfirmed: false,
      description: { features: ['confirm-owners'] },
      guests: new Map(),
      conflicts: new Map(),
      outdated: new Map([
        ['restored-elsewhere', 1],
        ['moving-away', 2],
        ['moving-here', 3],
      ]),
    }
    const confirmOwners = async ({ others }: { others: unknown[] }) => void confirmed.push(...others)
    const options = {
      view: { states: () => [host] },
      watched: { agent: () => ({ moves: { confirmOwners } }) },
      owners: { check: async () => undefined },
      moves: {
        list: async () => [
          { uuid: 'moving-away', fromHostId: 'a' },
          { uuid: 'moving-here', fromHostId: 'b' },
        ],
      },
      log: pino({ level: 'silent' }),
    }
    const confirmations = new OwnerConfirmations(options as unknown as OwnerConfirmationsOptions)
    confirmations.work()
    await confirmations.settled()
    expect(host.areOwnersConfirmed).to.equal(true)
    expect(confirmed).to.deep.equal([
      { uuid: 'restored-elsewhere', generation: 1 },
      { uuid: 'moving-here', generation: 3 },
    ])
  })
})
