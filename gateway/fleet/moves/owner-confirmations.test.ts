import { expect } from 'chai'
import { pino } from 'pino'
import { OwnerConfirmations, type OwnerConfirmationsOptions } from './owner-confirmations.js'

describe('the confirmation of owners to a host that connects', () => {
  it('contains guests that other hosts own, except those moving away, and whether the fleet has other hosts', async () => {
    const confirmed: unknown[] = []
    const host = {
      record: { id: 'a', serials: ['1'] },
      online: true,
      confirmation: undefined,
      description: { features: ['confirm-owners'] },
      guests: new Map(),
      conflicts: new Map(),
      outdated: new Map([
        ['restored-elsewhere', 1],
        ['moving-away', 2],
        ['moving-here', 3],
      ]),
    }
    const confirmOwners = async (request: unknown) => void confirmed.push(request)
    const hosts: unknown[] = [host, { record: { id: 'b', serials: [] }, online: false, conflicts: new Map() }]
    const options = {
      view: { states: () => hosts },
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
    const others = [
      { uuid: 'restored-elsewhere', generation: 1 },
      { uuid: 'moving-here', generation: 3 },
    ]
    expect(confirmed, 'the second host has never joined').to.deep.equal([{ others, hasOtherHosts: false }])
    confirmations.work()
    await confirmations.settled()
    expect(confirmed, 'nothing has changed').to.have.length(1)
    hosts.push({ record: { id: 'c', serials: ['2'] }, online: false, conflicts: new Map() })
    confirmations.work()
    await confirmations.settled()
    expect(confirmed, 'the fleet has a second host').to.deep.equal([
      { others, hasOtherHosts: false },
      { others, hasOtherHosts: true },
    ])
  })
})
