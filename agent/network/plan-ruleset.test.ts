import { expect } from 'chai'
import { planRemoval, planRuleset } from './plan-ruleset.js'

describe('ruleset', () => {
  const plan = {
    table: 'berth2',
    bridge: 'berth-b',
    interfacePrefix: 'bx',
    subnet: '10.65.0.0/16',
    gateway: '10.65.0.1',
  }
  const commands = planRuleset(plan)

  it('begins with anti-spoofing', () => {
    expect(commands[0]).to.equal('add table bridge berth2')
    expect(commands.filter((line) => line.startsWith('add rule bridge'))[0]).to.contain('prerouting iifname')
  })

  it('touches its own tables only', () => {
    for (const line of [...commands, ...planRemoval(plan)])
      expect(line).to.match(/^(add|delete) (table|set|map|chain|rule) (ip|inet|bridge) berth2( |$)/)
  })

  it('sets no policy but accept: foreign traffic is not ours', () => {
    expect(commands.filter((line) => /policy (?!accept)/.test(line))).to.deep.equal([])
  })

  it('matches its own bridge, subnet or guests in every rule of a hook', () => {
    const hooked = commands.filter((line) =>
      /^add rule \S+ \S+ (prerouting|input|output|forward|postrouting) /.test(line),
    )
    const own = /"berth-b"|@guest_devices|10\.65\.0\.0\/16|@ports/
    expect(hooked).to.have.lengthOf(12)
    for (const line of hooked) expect(line).to.match(own)
  })

  it('tells guests by prefix and digit: bx1 is one, bxy1 is not', () => {
    expect(commands.join('\n')).to.contain('"bx0*", "bx1*"').and.not.contain('"bx*"')
  })

  it('is the same however many guests there are', () => {
    expect(commands.join('; ').length).to.be.lessThan(6000)
  })
})
