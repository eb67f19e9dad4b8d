import { expect } from 'chai'
import { randomUUID } from 'node:crypto'
import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import type { GetSwapResponse } from '../../proto/gen/berth/agent/v1/host.js'
import type { SwapAction } from '../../shared/swap-rules.js'
import { call, callUntilAnswered, operationDone } from '../support/host/agent-calls.js'
import { AgentProcess } from '../support/host/agent-process.js'
import { swapsBelow } from '../support/scratch.js'
import { sh } from '../support/sh.js'

const mib = 1024 ** 2
const rounds = 6

describe('the swap of a host', function () {
  let agent: AgentProcess
  before(async () => {
    agent = await AgentProcess.create('sw')
    await agent.start()
    await agent.ready()
  })
  after(async () => {
    const { directory } = agent
    await agent.destroy()
    expect([swapsBelow(directory), existsSync(directory)], 'the purge leaves nothing').to.deep.equal([[], false])
  })

  /** Submits a change. When this resolves, the agent's journal has the change, so the agent can be killed. */
  async function order(action: SwapAction, sizeMb = 0): Promise<string> {
    const [client, operationId] = [agent.operations(), randomUUID()]
    const value = { action, sizeMb }
    await call(client.submitOperation.bind(client), {
      operationId,
      requestedBy: 'test',
      order: { $case: 'changeSwap', value },
    })
    client.close()
    return operationId
  }
  async function done(operationId: string): Promise<void> {
    const client = agent.operations()
    await operationDone(client, operationId)
    client.close()
  }
  async function read(): Promise<GetSwapResponse> {
    const client = agent.hosts()
    const swap = await callUntilAnswered(client.getSwap.bind(client), {})
    client.close()
    return swap
  }
  const restart = async (): Promise<void> => {
    await agent.kill()
    await agent.start()
    await agent.ready()
  }

  it('stays in use if the agent is killed and started again', async () => {
    await done(await order('create', 64))
    await agent.kill()
    expect(swapsBelow(agent.directory)).to.have.length(1)
    await agent.start()
    await agent.ready()
    expect(await read()).to.include({ enabled: true, fileBytes: 64 * mib })
  })

  it('gets its new size, and stays in use, even if the agent is killed during a resize', async () => {
    let longestMs = 60
    for (let round = 0; round < rounds; round++) {
      const sizeMb = round % 2 === 0 ? 96 : 64
      const begun = performance.now()
      const id = await order('resize', sizeMb)
      await delay((longestMs * round) / rounds)
      await agent.kill()
      longestMs = Math.max(longestMs, performance.now() - begun)
      expect(swapsBelow(agent.directory), `killed in round ${round}`).to.not.deep.equal([])
      await agent.start()
      await agent.ready()
      await done(id)
      expect(await read(), `round ${round}`).to.include({ enabled: true, fileBytes: sizeMb * mib })
      expect(swapsBelow(agent.directory)).to.have.length(1)
      expect(readdirSync(join(agent.directory, 'state/swap'))).to.have.length(1)
      expect(readdirSync(join(agent.directory, 'units/swap.target.wants'))).to.have.length(1)
    }
  })

  it('is activated at the start of the agent if it is enabled but was not activated at boot', async () => {
    sh('swapoff', swapsBelow(agent.directory)[0]!)
    await restart()
    expect(swapsBelow(agent.directory)).to.have.length(1)
    await done(await order('disable'))
    await restart()
    expect(await read()).to.include({ enabled: false, fileBytes: 64 * mib })
    expect(swapsBelow(agent.directory)).to.deep.equal([])
    await done(await order('enable'))
    expect(swapsBelow(agent.directory)).to.have.length(1)
  })

  it('shares its gRPC service with the host’s usage history', async () => {
    const client = agent.hosts()
    const { history } = await call(client.getHostHistory.bind(client), {
      range: 'year',
    })
    client.close()
    expect(history).to.include({ stepSeconds: 86_400 })
  })
})
