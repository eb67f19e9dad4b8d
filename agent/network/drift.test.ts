import { expect } from 'chai'
import { Drift } from './drift.js'
import { KnownGuests } from './known-guests.js'

describe('the comparison of network settings with the kernel', () => {
  const look = (drift: Drift): Promise<void> => drift.look(() => Promise.resolve())

  it('is due when the agent starts, but not after a successful comparison', async () => {
    const drift = new Drift(60_000)
    expect(drift.isDue).to.equal(true)
    await look(drift)
    expect(drift.isDue).to.equal(false)
  })

  it('is due again if it failed, or if another program changed the network during the comparison', async () => {
    const drift = new Drift(60_000)
    await drift.look(() => Promise.resolve(drift.note()))
    expect(drift.isDue).to.equal(true)
    await look(drift)
    await drift.look(() => Promise.reject(new Error('no'))).catch(() => undefined)
    expect(drift.isDue).to.equal(true)
  })

  it('is always due on a host that cannot watch for changes', async () => {
    const drift = new Drift(0)
    await look(drift)
    expect(drift.isDue).to.equal(true)
  })
})

describe('the list of guests that the agent attached to the network', () => {
  const guest = (uuid: string): never => ({ uuid }) as never

  it('does not include a detached guest, even if the journal still contains it', () => {
    const known = new KnownGuests()
    known.replace([guest('a'), guest('b')])
    known.detach('a')
    expect(known.replace([guest('a'), guest('b')]).map(({ uuid }) => uuid)).to.deep.equal(['b'])
    known.attach(guest('a'))
    expect(known.replace([guest('a'), guest('b')]).map(({ uuid }) => uuid)).to.deep.equal(['a', 'b'])
  })

  it('includes a detached guest again if it is deleted from the journal and created again', () => {
    const known = new KnownGuests()
    known.detach('a')
    known.replace([])
    expect(known.replace([guest('a')])).to.have.length(1)
  })
})
