import { expect } from 'chai'
import type { FirewallRule } from '../api/types.ts'
import { firewallPresets, locksOutSsh, presetFirewall } from './firewall-presets.ts'

const rule = (fields: Partial<FirewallRule>): FirewallRule => ({
  ...{ id: '', direction: 'in', protocol: 'tcp', action: 'ACCEPT', network: 'all', source_ip: '' },
  ...{ port: '', description: '' },
  ...fields,
})

describe('a firewall that drops everything else', () => {
  for (const [name, rules, expected] of [
    ['has no rules', [], true],
    ['permits another port', [rule({ port: '80' })], true],
    ['permits only outgoing connections', [rule({ direction: 'out' })], true],
    ['permits ping', [rule({ protocol: 'icmp' })], true],
    ['drops port 22 before it permits everything', [rule({ port: '22', action: 'DROP' }), rule({})], true],
    ['permits a range with port 22', [rule({ port: '80, 20-30' })], false],
    ['permits all protocols', [rule({ protocol: 'all' })], false],
    ['permits one address', [rule({ source_ip: '192.0.2.1' }), rule({ action: 'DROP' })], false],
  ] as const)
    it(`${expected ? 'locks out' : 'does not lock out'} SSH if it ${name}`, () =>
      expect(locksOutSsh({ enabled: true, default_action: 'DROP', rules: [...rules] })).to.equal(expected))

  it('locks out SSH only if it is enabled', () =>
    expect(locksOutSsh({ enabled: false, default_action: 'DROP', rules: [] })).to.equal(false))

  it('locks out SSH in only one of the presets', () => {
    const closed = firewallPresets.filter((preset) => {
      const { rules, ...rest } = presetFirewall(preset)
      return locksOutSsh({ ...rest, rules: rules.map(rule) })
    })
    expect(closed).to.deep.equal(['closed'])
  })
})
