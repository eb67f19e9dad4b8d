import { expect } from 'chai'
import type { OpenedFlow } from './contract.js'
import { GuestEvidence } from './guest-evidence.js'

const flow = (sourcePort: number, target: string): OpenedFlow => ({
  protocol: 'udp',
  source: '10.0.0.2',
  target,
  sourcePort,
  targetPort: 53,
  state: 'UNREPLIED',
  unreplied: true,
  leftSeconds: 20,
  bytes: 60,
  replyBytes: 0,
})

const startMs = 1_000_000_000

describe('the evidence of abuse by a guest', () => {
  it('uses limited memory, no matter how many flows the guest opens', () => {
    const evidence = new GuestEvidence()
    for (let look = 0; look < 6; look++) {
      const flows = Array.from({ length: 16_000 }, (_, port) => flow(port, `198.18.0.${look}`))
      evidence.addFlows(flows, startMs + look * 30_000, () => 10_000)
      evidence.prune(startMs + look * 30_000)
    }
    expect(evidence.notedFlows).to.equal(20_000)
    expect(evidence.size).to.equal(6000)
  })

  it('contains a flow only once, even if the agent reads this flow twice', () => {
    const evidence = new GuestEvidence()
    for (const atMs of [startMs, startMs + 30_000]) evidence.addFlows([flow(1, '198.18.0.1')], atMs, () => 10_000)
    expect(evidence.size).to.equal(1)
  })

  it('counts an unanswered flow at the time of its failure, even if the agent reads the flow later', () => {
    const evidence = new GuestEvidence()
    const flows = Array.from({ length: 240 }, (_, index) => ({
      ...flow(index, `198.18.0.${index}`),
      leftSeconds: index / 2,
    }))
    evidence.addSample(
      { kind: 'opened', guest: '10.0.0.2', target: '198.18.9.9', protocol: 'tcp', port: 1, count: 1 },
      startMs - 30_000,
    )
    evidence.addFlows(flows, startMs, ({ leftSeconds }) => (120 - leftSeconds) * 1000)
    const { rows } = evidence.view(startMs, false)
    const times = rows.map(({ atMs }) => atMs)
    expect(times, 'in order').to.deep.equal(times.toSorted((a, b) => a - b))
    expect(times[0]).to.equal(startMs - 115_000)
    expect(times.filter((atMs) => atMs > startMs - 60_000).length).to.be.within(115, 125)
  })
})
