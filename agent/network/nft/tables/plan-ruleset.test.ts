import { expect } from 'chai'
import { planTableRemoval, planRuleset } from './plan-ruleset.js'

describe('the nft ruleset', () => {
  const plan = {
    table: 'berth2',
    bridge: 'berth-b',
    interfacePrefix: 'bx',
    subnet: '10.65.0.0/16',
    gateway: '10.65.0.1',
    subnet6: 'fd65::/64',
    countInternal: false,
    closed: ['168.63.129.16', '10.9.0.0/16', 'fd00:ec2::254'],
    resolvers: ['168.63.129.16', '9.9.9.9'],
  }
  const commands = planRuleset(plan)

  it('begins with the rules against spoofing', () => {
    expect(commands[0]).to.equal('add table bridge berth2')
    expect(commands.filter((line) => line.startsWith('add rule bridge'))[0]).to.contain('prerouting iifname')
  })

  it('changes only its own tables', () => {
    for (const line of [...commands, ...planTableRemoval(plan)])
      expect(line).to.match(/^(add|delete) (table|set|map|element|chain|rule) (ip6?|inet|bridge) berth2( |$)/)
  })

  it('adds an element to each dynamic set and removes it immediately, so that the kernel frees memory', () => {
    const made = commands.filter((line) => / flags dynamic/.test(line))
    expect(made).to.have.lengthOf(10)
    for (const line of made) {
      const [, at = ''] = /^add set (\S+ \S+ \S+) /.exec(line) ?? []
      const [add = '', remove = ''] = commands.slice(commands.indexOf(line) + 1)
      expect(add).to.match(new RegExp(`^add element ${at} \\{ .* \\}$`))
      expect(remove).to.equal(add.replace('add', 'delete'))
    }
  })

  it('has the policy “accept” in every chain, so that the ruleset does not affect other traffic', () => {
    expect(commands.filter((line) => /policy (?!accept)/.test(line))).to.deep.equal([])
  })

  it('matches in each hook chain only traffic of its own bridge, subnet, guests or host addresses', () => {
    const hooked = commands.filter((line) =>
      /^add rule \S+ \S+ (prerouting|input|output|forward|postrouting|traffic|hairpin) /.test(line),
    )
    const own = /"berth-b"|@guest_devices|10\.65\.0\.0\/16|fd65::|@public_in|@self|local jump mapped|jump firewall_to/
    expect(hooked).to.have.lengthOf(34)
    for (const line of hooked) expect(line).to.match(own)
  })

  it('applies the firewall of a guest before the first rule that accepts packets', () => {
    for (const [chain, jump] of [
      ['from_guest', 'firewall_from'],
      ['to_guest', 'firewall_to'],
    ]) {
      const rules = commands.filter((line) => line.startsWith(`add rule inet berth2 ${chain} `))
      const before = rules.slice(0, rules.indexOf(`add rule inet berth2 ${chain} jump ${jump}`))
      expect(before).to.have.lengthOf.within(1, 6)
      for (const line of before) expect(line).to.match(/drop$|jump (closed|related)( \})?$/)
    }
  })

  it('forwards no packets to network.closed_destinations, even if a guest’s firewall accepts them', () => {
    const rules = commands.filter((line) => line.startsWith('add rule inet berth2 from_guest '))
    const decided = rules.findIndex((line) => /accept$|jump firewall/.test(line))
    for (const [ip, suffix] of [
      ['ip', ''],
      ['ip6', '6'],
    ])
      expect(rules.slice(0, decided)).to.include(
        `add rule inet berth2 from_guest ${ip} daddr @closed${suffix} ct direction original jump closed`,
      )
    const closed = commands.filter((line) => / (set inet berth2 |inet berth2 )(closed|resolvers)6? /.test(line))
    expect(closed.map((line) => line.replace(/.* berth2 /, ''))).to.deep.equal([
      'closed { type ipv4_addr; flags interval; elements = { 10.9.0.0/16, 168.63.129.16/32, 169.254.0.0/16 }; }',
      'resolvers { type ipv4_addr; flags interval; elements = { 9.9.9.9/32, 168.63.129.16/32 }; }',
      'closed ip daddr @resolvers meta l4proto { tcp, udp } th dport 53 return',
      'closed6 { type ipv6_addr; flags interval; elements = { fd00:ec2::254/128, fe80::/10 }; }',
      'closed drop',
    ])
  })

  it('counts traffic that leaves the host, and traffic between guests if configured', () => {
    const rulesOf = (countInternal: boolean): string[] =>
      planRuleset({ ...plan, countInternal }).filter((line) => line.includes(' traffic '))
    expect(rulesOf(false)[1]).to.match(/iifname "berth-b" oifname "berth-b" return$/)
    expect(rulesOf(true).filter((line) => line.endsWith('return'))).to.deep.equal([])
  })

  it('matches guests’ interfaces by the prefix and a digit, for example bx1 but not bxy1', () => {
    expect(commands.join('\n')).to.contain('"bx0*", "bx1*"').and.not.contain('"bx*"')
  })

  it('stays below 18,000 characters, because it does not contain guests', () => {
    expect(commands.join('; ').length).to.be.lessThan(18_000)
  })
})
