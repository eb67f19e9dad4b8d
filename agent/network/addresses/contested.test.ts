import { expect } from 'chai'
import { pino } from 'pino'
import { waitFor } from '../../../test/support/wait.js'
import { ContestedAddresses } from './contested.js'

const served = (address: string) => ({ address, interface: 'eth0' })

describe('the check whether another machine uses a guest’s address', () => {
  const taken = new Map<string, string>()
  let asked: string[]
  let nowMs: number
  let addresses: ContestedAddresses
  beforeEach(() => {
    taken.clear()
    ;[asked, nowMs] = [[], 0]
    addresses = new ContestedAddresses({
      log: pino({ level: 'silent' }),
      now: () => nowMs,
      findOwner: (_device, address) => {
        asked.push(address)
        return Promise.resolve(taken.get(address) ?? '')
      },
    })
  })

  it('reports an address as long as another machine answers for it', async () => {
    taken.set('198.51.100.7', '02:00:00:00:00:07')
    addresses.keep([served('198.51.100.7')])
    await waitFor(() => addresses.warnings.length === 1)
    expect(addresses.warnings[0]).to.contain('198.51.100.7').and.contain('02:00:00:00:00:07 on eth0')
    taken.clear()
    nowMs = 59_000
    addresses.keep([served('198.51.100.7')])
    expect(asked).to.have.length(1)
    nowMs = 60_000
    addresses.keep([served('198.51.100.7')])
    await waitFor(() => addresses.warnings.length === 0)
  })

  it('does not repeat an unanswered probe until the address is assigned again', () => {
    for (nowMs of [0, 600_000]) addresses.keep([served('198.51.100.7')])
    expect(asked).to.deep.equal(['198.51.100.7'])
    addresses.keep([])
    addresses.keep([served('198.51.100.7')])
    expect(asked).to.have.length(2)
  })
})
