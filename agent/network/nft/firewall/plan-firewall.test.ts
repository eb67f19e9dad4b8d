import { expect } from 'chai'
import fc from 'fast-check'
import { BerthError } from '../../../../shared/errors.js'
import { planFirewall } from './plan-firewall.js'
import type { FirewallRule } from '../../../../shared/firewall-rules.js'

const any: FirewallRule = {
  id: 'r1',
  direction: 'in',
  protocol: 'all',
  action: 'ACCEPT',
  network: 'all',
  sourceIp: '',
  port: '',
  description: '',
}
const plan = (...rules: Partial<FirewallRule>[]): ReturnType<typeof planFirewall> =>
  planFirewall('bt1', {
    enabled: true,
    defaultAction: 'DROP',
    rules: rules.map((rule) => ({ ...any, ...rule })),
  })

describe('the firewall of a guest', () => {
  for (const [name, rule, line] of [
    ['that matches everything', {}, 'return'],
    ['that drops everything', { action: 'DROP' }, 'drop'],
    ['for tcp', { protocol: 'tcp' }, 'ct original protocol 6 return'],
    ['for udp', { protocol: 'udp' }, 'ct original protocol 17 return'],
    ['for icmp over IPv4 and IPv6', { protocol: 'icmp' }, 'ct original protocol { 1, 58 } return'],
    ['for one address family', { network: 'ipv6' }, 'meta nfproto ipv6 return'],
    ['for an address', { sourceIp: '192.0.2.1' }, 'meta nfproto ipv4 ct original ip saddr 192.0.2.1 return'],
    ['for a CIDR', { sourceIp: '2001:db8::/32' }, 'meta nfproto ipv6 ct original ip6 saddr 2001:db8::/32 return'],
    [
      'for a range of addresses',
      { sourceIp: '192.0.2.1-192.0.2.9', network: 'ipv4' },
      'meta nfproto ipv4 ct original ip saddr 192.0.2.1-192.0.2.9 return',
    ],
    [
      'for a port',
      { protocol: 'tcp', port: '22', network: 'ipv4' },
      'meta nfproto ipv4 ct original protocol 6 ct reply proto-src { 22 } return',
    ],
    [
      'for ports and ranges of ports',
      { protocol: 'udp', port: '53,1000-2000', network: 'ipv6' },
      'meta nfproto ipv6 ct original protocol 17 ct reply proto-src { 53, 1000-2000 } return',
    ],
  ] as [string, Partial<FirewallRule>, string][])
    it(`translates an incoming rule ${name}`, () => expect(plan(rule)?.in).to.deep.equal([line, 'drop']))

  it('translates a rule for a port in both address families to two nft rules', () => {
    expect(plan({ protocol: 'tcp', port: '22' })?.in).to.deep.equal([
      'meta nfproto ipv4 ct original protocol 6 ct reply proto-src { 22 } return',
      'meta nfproto ipv6 ct original protocol 6 ct reply proto-src { 22 } return',
      'drop',
    ])
  })

  it('matches outgoing packets by their remote address and remote port', () => {
    const rule = { direction: 'out', protocol: 'tcp', sourceIp: '192.0.2.1', port: '25' } as const
    expect(plan(rule)?.out).to.deep.equal([
      'meta nfproto ipv4 ct original protocol 6 ct original ip daddr 192.0.2.1 ct original proto-dst { 25 } return',
      'drop',
    ])
  })

  it('keeps the order of rules in each direction, and ends with the default action', () => {
    const rules = [
      { action: 'DROP', protocol: 'tcp' },
      { direction: 'out', action: 'DROP' },
      { protocol: 'udp' },
    ] as const
    expect(plan(...rules)).to.deep.equal({
      device: 'bt1',
      in: ['ct original protocol 6 drop', 'ct original protocol 17 return', 'drop'],
      out: ['drop', 'drop'],
    })
    const open = { enabled: true, defaultAction: 'ACCEPT', rules: [] } as const
    expect(planFirewall('bt1', open)?.in).to.deep.equal(['return'])
  })

  it('has no chains while it is off or not set', () => {
    expect(planFirewall('bt1', undefined)).to.equal(undefined)
    expect(planFirewall('bt1', { enabled: false, defaultAction: 'DROP', rules: [any] })).to.equal(undefined)
  })

  it('rejects unexpected characters in any field of a rule', () => {
    const hostile = fc.string({ minLength: 1 }).filter((text) => !/^[0-9a-f.:,/-]+$/.test(text))
    fc.assert(
      fc.property(hostile, (text) => {
        for (const field of ['direction', 'protocol', 'action', 'network', 'sourceIp', 'port'])
          expect(() => plan({ protocol: 'tcp', [field]: text }), field).to.throw(BerthError)
      }),
    )
    expect(() => plan({ protocol: 'icmp', port: '22' })).to.throw(BerthError)
  })
})
