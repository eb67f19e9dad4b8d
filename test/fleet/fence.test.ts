import { expect } from 'chai'
import { codeOf, startTestFleet, type TestFleet } from '../support/gateway/test-fleet.js'
import type { LabAgent } from '../support/memory/lab-agent.js'
import type { Fence } from '../../shared/fence.js'
import { mkdtemp, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { memoryDirectory } from '../support/memory/lab-agent.js'
import { waitFor } from '../support/wait.js'

describe('an agent that checks the fence (lease name and epoch) of calls', () => {
  let lab: TestFleet
  let agent: LabAgent
  let hostId: string
  let stateDir: string
  before(async () => {
    lab = await startTestFleet()
    stateDir = await mkdtemp(join(memoryDirectory, 'btest-fence-'))
    ;({ agent, hostId } = await lab.addHost('a', { stateDir }))
  })
  after(async () => {
    await lab.close()
    await rm(stateDir, { recursive: true, force: true })
  })

  const call = (fence?: Fence): Promise<string> => codeOf(lab.fleet.agent(hostId).hosts.describe({}, fence))

  it('accepts the highest epoch so far and refuses lower epochs, separately for each lease name', async () => {
    const codes: string[] = []
    for (const [work, epoch] of [
      ['drain', 5],
      ['drain', 5],
      ['drain', 4],
      ['upgrade', 4],
      ['drain', 6],
      ['drain', 5],
    ] as const)
      codes.push(await call({ work, epoch }))
    expect(codes).to.deep.equal(['ok', 'ok', 'stale_epoch', 'ok', 'ok', 'stale_epoch'])
  })

  it('accepts calls without a fence', async () => {
    expect(await call()).to.equal('ok')
  })

  it('still refuses lower epochs after a restart', async () => {
    expect(await call({ work: 'restart', epoch: 9 })).to.equal('ok')
    await agent.stop()
    await agent.resume()
    await waitFor(async () => (await call()) === 'ok', { what: 'the agent is connected again' })
    expect(await call({ work: 'restart', epoch: 8 })).to.equal('stale_epoch')
    expect(await call({ work: 'restart', epoch: 9 })).to.equal('ok')
  })

  it('reports in its list of features that it can check fences', () => {
    expect(lab.fleet.view.findHost(hostId)?.description?.features).to.include('fence')
  })
})
