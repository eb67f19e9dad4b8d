import { expect } from 'chai'
import { AddressOwners } from './address-owners.js'

const guest = (uuid: string, ipv4: string, createdAtMs = 0) => ({
  uuid,
  ipv4,
  ipv6Addresses: [],
  createdAtMs,
})

describe('the guest that owned an address at a given time', () => {
  it('is the first recorded owner, also for the time between the creation of this guest and its record', () => {
    const owners = new AddressOwners()
    owners.update([guest('a', '10.0.0.2', 500)], 1000)
    expect([499, 500].map((atMs) => owners.findOwner('10.0.0.2', atMs))).to.deep.equal([undefined, 'a'])
  })

  it('is unknown for the time after an earlier owner and before the agent recorded the present owner', () => {
    const owners = new AddressOwners()
    owners.update([guest('a', '10.0.0.2')], 1000)
    owners.update([guest('b', '10.0.0.2', 1500)], 2000)
    expect([1999, 2000].map((atMs) => owners.findOwner('10.0.0.2', atMs))).to.deep.equal([undefined, 'b'])
  })

  it('is unknown between the deletion of the old owner and the report of the new owner', () => {
    const owners = new AddressOwners()
    owners.update([guest('a', '10.0.0.2'), guest('c', '10.0.0.3')], 1000)
    owners.update([guest('c', '10.0.0.3')], 2000)
    expect(owners.findOwner('10.0.0.2', 3000)).to.equal(undefined)
    owners.update([guest('b', '10.0.0.2', 2500), guest('c', '10.0.0.3')], 4000)
    expect([3999, 4000].map((atMs) => owners.findOwner('10.0.0.2', atMs))).to.deep.equal([undefined, 'b'])
    expect(owners.findOwner('10.0.0.3', 1)).to.equal('c')
  })

  it('is forgotten ten minutes after the guest lost the address', () => {
    const owners = new AddressOwners()
    owners.update([guest('a', '10.0.0.2')], 0)
    owners.update([], 1000)
    owners.update([guest('c', '10.0.0.3')], 700_000)
    owners.update([guest('b', '10.0.0.2', 800_000)], 900_000)
    expect(owners.findOwner('10.0.0.2', 800_000)).to.equal('b')
  })
})
