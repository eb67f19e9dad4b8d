import { expect } from 'chai'
import fc from 'fast-check'
import { BerthError } from './errors.js'
import { failedField } from '../test/support/failed-field.js'
import { checkFirewall, type WantedRule } from './firewall-rules.js'

const rule: WantedRule = {
  id: '',
  direction: 'in',
  protocol: 'tcp',
  action: 'ACCEPT',
  network: 'all',
  sourceIp: '',
  port: '',
  description: '',
}
const checkRule = (change: Partial<WantedRule>) =>
  checkFirewall({ enabled: true, defaultAction: 'DROP', rules: [rule, { ...rule, ...change }] }).rules[1]!

describe('firewall rules', () => {
  for (const [name, change, checked] of [
    ['a single port', { port: '80' }, { port: '80' }],
    ['a list of ports with blanks', { port: ' 443, 80 ' }, { port: '80,443' }],
    ['a range of ports', { port: '1000-2000' }, { port: '1000-2000' }],
    ['a list of ports and overlapping ranges (merged)', { port: '90,80-100,95-110,22,22' }, { port: '22,80-110' }],
    ['neighbouring ports (kept separate)', { port: '80,81' }, { port: '80,81' }],
    ['a range of one port', { protocol: 'udp', port: '53-53' }, { port: '53' }],
    ['an address', { network: 'ipv4', sourceIp: ' 192.0.2.1 ' }, { sourceIp: '192.0.2.1' }],
    ['a CIDR with host bits (cleared)', { sourceIp: '10.1.2.3/8' }, { sourceIp: '10.0.0.0/8' }],
    ['a range of addresses', { sourceIp: '2001:DB8::1-2001:db8::F' }, { sourceIp: '2001:db8::1-2001:db8::f' }],
    ['fields with only blanks (treated as empty)', { sourceIp: ' ', port: ' ' }, { sourceIp: '', port: '' }],
    [
      'the protocol icmp',
      { protocol: 'icmp', direction: 'out', action: 'DROP', network: 'ipv6' },
      { protocol: 'icmp' },
    ],
    ['an existing id', { id: 'r-1_A' }, { id: 'r-1_A' }],
    ['a description of 200 characters', { description: '😀'.repeat(200) }, { description: '😀'.repeat(200) }],
  ] as const)
    it(`are accepted with ${name}`, () => expect(checkRule(change)).to.deep.include(checked))

  for (const [change, field] of [
    ...[{ port: '0' }, { port: '65536' }, { port: '80,' }, { port: '90-80' }, { port: 'ssh' }].map(
      (change) => [change, 'port'] as const,
    ),
    ...[{ port: '80;drop' }, { port: '1-2-3' }, { port: Array(51).fill('1').join(',') }].map(
      (change) => [change, 'port'] as const,
    ),
    [{ protocol: 'icmp', port: '80' }, 'port'],
    [{ protocol: 'all', port: '80' }, 'port'],
    [{ protocol: 'sctp' }, 'protocol'],
    [{ direction: 'forward' }, 'direction'],
    [{ action: 'accept' }, 'action'],
    [{ network: 'inet' }, 'network'],
    [{ network: 'ipv4', sourceIp: '::1' }, 'source_ip'],
    [{ network: 'ipv6', sourceIp: '10.0.0.0/8' }, 'source_ip'],
    [{ port: '80\n' }, 'port'],
    ...['\n', '\t', '\u2028'].map((odd) => [{ sourceIp: `10.0.0.1${odd}` }, 'source_ip'] as const),
    [{ sourceIp: 'example.org' }, 'source_ip'],
    [{ sourceIp: '10.0.0.1, 10.0.0.2' }, 'source_ip'],
    [{ description: 'a\u2028b' }, 'description'],
    [{ description: 'a\u0085b' }, 'description'],
    [{ description: '😀'.repeat(201) }, 'description'],
    [{ id: 'a b' }, 'id'],
  ] as const)
    it(`are refused with the fields ${JSON.stringify(change).slice(0, 60)}`, () =>
      expect(failedField(() => checkRule(change))).to.equal(`rules.1.${field}`))

  it('are refused with a duplicate id, an unknown default action or too many rules', () => {
    const check = (change: object) => () =>
      checkFirewall({ enabled: true, defaultAction: 'ACCEPT', rules: [], ...change })
    expect(failedField(check({ rules: [rule, { ...rule, id: 'a' }, { ...rule, id: 'a' }] }))).to.equal('rules.1.id')
    expect(failedField(check({ defaultAction: 'REJECT' }))).to.equal('default_action')
    expect(failedField(check({ rules: Array(201).fill(rule) }))).to.equal('rules')
  })

  it('cannot contain characters that end an nft statement, and are not changed by a repeated check', () => {
    const safe = /^[0-9a-f.:,/-]*$/
    const text = fc.string({ unit: fc.constantFrom(...'0123456789abcdef.:-/, ;{}\n"$') })
    fc.assert(
      fc.property(text, text, (sourceIp, port) => {
        try {
          const checked = checkRule({ sourceIp, port })
          expect(checked.sourceIp + checked.port).to.match(safe)
          expect(checkRule(checked)).to.deep.equal(checked)
        } catch (error) {
          expect(error).to.be.instanceOf(BerthError)
        }
      }),
      { numRuns: 2000 },
    )
  })
})
