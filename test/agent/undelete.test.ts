import { expect } from 'chai'
import { randomUUID } from 'node:crypto'
import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { submit } from '../support/host/agent-calls.js'
import { AgentProcess } from '../support/host/agent-process.js'
import { codeOf, SettingsHost } from '../support/host/settings-host.js'
import { waitFor } from '../support/wait.js'

const hourMs = 3_600_000

/** Tests deletions that can be undone, with a separate agent that is killed between the steps. */
describe('deleted guests that an agent keeps for a retention time', () => {
  let host: SettingsHost
  before(async () => {
    const config = { traffic: { interval_seconds: 1 }, lxc: { stop_timeout_seconds: 2 } }
    host = await SettingsHost.open(await AgentProcess.create('und', config))
  })
  after(() => host.destroy())

  async function remove(uuid: string, retainMs: number): Promise<string> {
    const operations = host.agent.operations()
    const order = { $case: 'delete', value: { uuid, retainMs } } as const
    const request = { operationId: randomUUID(), requestedBy: 'test', order }
    const { operation } = await submit(operations, request).finally(() => operations.close())
    return operation!.id
  }
  const statusOf = (uuid: string): string => host.guest(uuid)?.status ?? 'gone'

  it('start again if the deletion is undone, even if the agent was killed during the stop', async () => {
    const uuid = await host.create(1, 'returns', { start: true })
    await waitFor(() => statusOf(uuid) === 'running')
    const operationId = await remove(uuid, hourMs)
    await host.restart()
    await host.done(operationId)
    await waitFor(() => statusOf(uuid) === 'stopped')
    expect(host.guest(uuid).deletion!.untilMs).to.be.greaterThan(Date.now())
    expect(await host.power('start', uuid)).to.equal('invalid_state')
    expect(await codeOf(host.setLimits(uuid, { ramMb: 300 }))).to.equal('invalid_state')
    await host.change(uuid, { $case: 'undelete', value: {} })
    await waitFor(() => statusOf(uuid) === 'running')
    expect(host.guest(uuid).deletion).to.equal(undefined)
  })

  it('are removed after the retention time, even if the agent was killed during this time', async () => {
    const uuid = await host.create(2, 'leaves', { start: true })
    await host.done(await remove(uuid, 1000))
    await host.restart()
    await waitFor(() => statusOf(uuid) === 'gone')
    const pool = join(host.agent.directory, 'pool')
    expect(existsSync(pool)).to.equal(true)
    expect(
      readdirSync(pool, { recursive: true, encoding: 'utf8' }).filter((path) => path.endsWith(uuid)),
    ).to.deep.equal([])
  })
})
