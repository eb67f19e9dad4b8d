import { expect } from 'chai'
import { planCommand } from './plan-command.js'

describe('the command for a new host', () => {
  const facts = { address: '[2001:db8::1]:8081', pin: 'sha256//YQ==', token: 'berth_jt_a.b.c' }

  it('installs the agent with the gateway’s script, and pins the gateway’s key', () => {
    expect(planCommand({ ...facts, hasPackages: true })).to.equal(
      "curl -fsSLk --pinnedpubkey 'sha256//YQ==' https://[2001:db8::1]:8081/install | sh -s -- berth_jt_a.b.c",
    )
  })

  it('lets an installed agent join, and installs nothing, if the gateway offers no packages', () => {
    expect(planCommand({ ...facts, hasPackages: false })).to.equal(
      'echo berth_jt_a.b.c | node /opt/berth/dist/agent/main.js join - --config /etc/berth/agent.yaml',
    )
  })
})
