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

describe('the verdict of a firewall', () => {
  for (const [name, rules, said] of [
    ['no rule', [], 'default'],
    ['its port', [{ port: '22' }], 'passes'],
    ['its port within a range', [{ port: '80,20-30' }], 'passes'],
    ['another port', [{ port: '23,80' }], 'default'],
    ['all protocols', [{ protocol: 'all' }], 'passes'],
    ['another protocol', [{ protocol: 'udp' }, { protocol: 'icmp' }], 'default'],
    ['its own connections', [{ direction: 'out' }], 'default'],
    ['another address family', [{ network: 'ipv6' }], 'default'],
    ['its address', [{ sourceIp: '198.51.100.7' }], 'passes'],
    ['its network', [{ sourceIp: '198.51.100.0/29' }], 'passes'],
    ['a range', [{ sourceIp: '198.51.100.5-198.51.100.7' }], 'passes'],
    ['outside a range', [{ sourceIp: '198.51.100.5-198.51.100.6' }], 'default'],
    ['an address of the other family', [{ sourceIp: '2001:db8::/32' }], 'default'],
    ['the first matching rule', [{ id: 'no', action: 'DROP' }, {}], 'no'],
  ] as const)
    it(name, () => expect(verdict([...rules])).to.equal(said))

  it('matches no source rule for an unknown source', () =>
    expect(verdict([{ sourceIp: '0.0.0.0/0' }], { source: '' })).to.equal('default'))
  it('supports IPv6', () =>
    expect(verdict([{ sourceIp: '2001:db8::/32' }], { family: 'ipv6', source: '2001:db8::9' })).to.equal('passes'))
  it('is open when it is off', () => expect(verdict([], {}, { enabled: false })).to.equal('passes'))
})
