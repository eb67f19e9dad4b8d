import { expect } from 'chai'
import type { GuestNetwork } from '../../agent/network/contract.js'
import { NetworkLab, type AgentNetwork } from '../support/network/network-lab.js'
import { firewallOf } from '../bench/network-plan.js'
import { checkFirewall } from '../../shared/firewall-rules.js'
import { expectInTime } from '../support/promised-time.js'

/* Tests that rules which another program deleted are restored within seconds, even on a host with 1,000 guests. */

const seconds = 5

describe('the repair of the nft rules of a host with 1,000 guests', function () {
  const lab = new NetworkLab('btestrep', { subnet: '10.77.0.0/16' })
  const publicIpv4s = Array.from({ length: 200 }, (_, i) => `198.18.7.${i + 1}`)
  const guests = Array.from({ length: 1000 }, (_, i): GuestNetwork => {
    const firewall = checkFirewall(firewallOf(20, i))
    return lab.guest(i + 10, [], { firewall, publicIpv4s: publicIpv4s.slice(i, i + 1) })
  })
  let agent: AgentNetwork

  before(async () => {
    lab.build()
    agent = lab.agent()
    await agent.ensure(guests)
  })
  after(() => lab.remove())

  it(`takes less than ${seconds} s for 1,000 firewalls of 20 rules and 200 public addresses`, async () => {
    lab.in(lab.host, 'nft', 'flush', 'ruleset')
    const begin = performance.now()
    expect(await agent.ensure(guests)).to.deep.equal(['nft tables created'])
    expectInTime(begin, seconds * 1000, 'everything is restored')
    expect(await agent.ensure(guests)).to.deep.equal([])
  })

  it('is complete, so that a new agent finds nothing to repair', async () => {
    const next = lab.agent()
    expect(await next.ensure(guests)).to.deep.equal([])
    await next.end()
  })
})
