import { expect } from 'chai'
import { checkFirewall } from './firewall-rules.js'
import { findDropping, type Arrival } from './firewall-verdict.js'

const rule = (fields: object): object => ({
  id: '',
  direction: 'in',
  protocol: 'tcp',
  action: 'ACCEPT',
  network: 'all',
  sourceIp: '',
  port: '',
  description: '',
  ...fields,
})
const verdict = (rules: object[], arrival: Partial<Arrival> = {}, more: object = {}): string => {
  const wanted = { enabled: true, defaultAction: 'DROP', rules: rules.map(rule), ...more }
  const firewall = checkFirewall(wanted as Parameters<typeof checkFirewall>[0])
  const dropping = findDropping(firewall, { family: 'ipv4', source: '198.51.100.7', port: 22, ...arrival })
  return dropping === undefined ? 'passes' : dropping === 'default' ? 'default' : dropping.id
}

describe('the firewall check of a connection to port 22', () => {
  for (const [name, rules, said] of [
    ['applies the default action if there are no rules', [], 'default'],
    ['accepts a connection to the port of a rule', [{ port: '22' }], 'passes'],
    ['accepts a connection to a port within the range of a rule', [{ port: '80,20-30' }], 'passes'],
    ['applies the default action if all rules name other ports', [{ port: '23,80' }], 'default'],
    ['accepts a connection if a rule is for all protocols', [{ protocol: 'all' }], 'passes'],
    [
      'applies the default action if all rules name other protocols',
      [{ protocol: 'udp' }, { protocol: 'icmp' }],
      'default',
    ],
    ['applies the default action if the only rule is for outgoing connections', [{ direction: 'out' }], 'default'],
    ['applies the default action if the only rule is for IPv6', [{ network: 'ipv6' }], 'default'],
    ['accepts a connection from the address of a rule', [{ sourceIp: '198.51.100.7' }], 'passes'],
    ['accepts a connection from the network of a rule', [{ sourceIp: '198.51.100.0/29' }], 'passes'],
    ['accepts a connection from the address range of a rule', [{ sourceIp: '198.51.100.5-198.51.100.7' }], 'passes'],
    [
      'applies the default action if the source is outside the address range of the only rule',
      [{ sourceIp: '198.51.100.5-198.51.100.6' }],
      'default',
    ],
    ['applies the default action if the only rule names an IPv6 network', [{ sourceIp: '2001:db8::/32' }], 'default'],
    ['applies the first matching rule', [{ id: 'no', action: 'DROP' }, {}], 'no'],
  ] as const)
    it(name, () => expect(verdict([...rules])).to.equal(said))

  it('does not apply a rule with a source to a connection whose source is unknown', () =>
    expect(verdict([{ sourceIp: '0.0.0.0/0' }], { source: '' })).to.equal('default'))
  it('accepts a connection from the IPv6 network of a rule', () =>
    expect(verdict([{ sourceIp: '2001:db8::/32' }], { family: 'ipv6', source: '2001:db8::9' })).to.equal('passes'))
  it('accepts everything while the firewall is disabled', () =>
    expect(verdict([], {}, { enabled: false })).to.equal('passes'))
})
