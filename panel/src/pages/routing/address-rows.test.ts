import { expect } from 'chai'
import type { Routing } from '../../api/types.ts'
import { addressRows, findAddresses } from './address-rows.ts'

const pool = (address: string) => ({ address, interface: 'eth0', prefix_len: 24, gateway: '203.0.113.1' })
const held = (address: string, id: number, name: string) => ({
  ...pool(address),
  container_id: id,
  container_name: name,
})
const routing = {
  public_ipv4_addresses: ['203.0.113.10', '203.0.113.9', '203.0.113.2'].map(pool),
  ipv4_assignments: [held('203.0.113.10', 7, 'web'), held('198.51.100.4', 8, 'mail')],
  ipv6_assignments: [held('2001:db8::7', 7, 'web')],
} as unknown as Routing
const rows = addressRows(routing, [{ id: 7, owners: [{ id: '1', username: 'Ada' }] }, { id: 8 }])

describe('the table of public addresses', () => {
  it('contains free addresses, assigned addresses outside the pool, and IPv6 addresses, in numeric order', () =>
    expect(rows.map(({ address, guest }) => [address, guest?.name])).to.deep.equal([
      ['198.51.100.4', 'mail'],
      ['203.0.113.2', undefined],
      ['203.0.113.9', undefined],
      ['203.0.113.10', 'web'],
      ['2001:db8::7', 'web'],
    ]))

  it('names the customers of a guest', () =>
    expect(rows.map(({ owners }) => owners.map(({ username }) => username).join())).to.deep.equal([
      '',
      '',
      '',
      'Ada',
      'Ada',
    ]))

  for (const [what, text, found] of [
    ['an address', '113.9', ['203.0.113.9']],
    ['a guest', ' MAIL', ['198.51.100.4']],
    ['a customer', 'ada', ['203.0.113.10', '2001:db8::7']],
  ] as const)
    it(`can be searched for ${what}`, () =>
      expect(findAddresses(rows, text).map(({ address }) => address)).to.deep.equal(found))
})
