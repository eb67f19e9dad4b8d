import { expect } from 'chai'
import { failedField } from '../../../test/support/failed-field.js'
import { planRouting } from './plan-routing.js'

const planned = (item: { prefix: string; prefix_len?: number }) => planRouting({ ipv6_prefixes: [item] })

describe('pools in a request to change the network', () => {
  it('stay unchanged if the request omits them', () =>
    expect(planRouting({})).to.deep.equal({ ipv4Pool: undefined, ipv6Prefixes: undefined, nat4Ports: undefined }))

  it('can contain IPv4 addresses without a prefix length', () =>
    expect(planRouting({ items: [{ address: '203.0.113.9' }] }).ipv4Pool).to.deep.equal({
      items: [{ address: '203.0.113.9', interface: '', prefixLen: 32, gateway: '' }],
    }))

  for (const item of [
    { prefix: '2001:db8::/64' },
    { prefix: '2001:DB8:0:0::/64' },
    { prefix: '2001:db8::0', prefix_len: 64 },
    { prefix: '2001:db8::/64', prefix_len: 64 },
  ])
    it(`can contain ${JSON.stringify(item)}, which is stored in canonical form`, () =>
      expect(planned(item).ipv6Prefixes?.items[0]).to.include({ prefix: '2001:db8::', prefixLen: 64 }))

  for (const item of [
    { prefix: '2001:db8::' },
    { prefix: '2001:db8::/' },
    { prefix: '/64' },
    { prefix: '2001:db8::/64/zz' },
    { prefix: '2001:db8::/0x40' },
    { prefix: '2001:db8::/064' },
    { prefix: '2001:db8::/ 64' },
    { prefix: '2001:db8::%1/64' },
    { prefix: '::ffff:10.0.0.0/104/64' },
    { prefix: '2001:db8::1/64' },
    { prefix: '2001:db8::/48', prefix_len: 64 },
    { prefix: '2001:db8::/64/64', prefix_len: 64 },
    { prefix: '10.0.0.0', prefix_len: 8 },
  ])
    it(`are rejected if they contain ${JSON.stringify(item)}`, () =>
      expect(failedField(() => planned(item))).to.equal('ipv6_prefixes.0.prefix'))

  it('are rejected if a range of ports ends before its first port', () => {
    const backwards = { nat4_port_range: { start: 30_009, end: 30_008 } }
    expect(failedField(() => planRouting(backwards))).to.equal('nat4_port_range.end')
  })
})
