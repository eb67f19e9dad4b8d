import { expect } from 'chai'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { joinGateway } from '../../agent/enrollment/join.js'
import { CutLine } from '../support/cut-line.js'
import { GatewayProcess, type GatewayReply } from '../support/gateway/gateway-process.js'
import { LabAgent } from '../support/memory/lab-agent.js'
import { waitFor } from '../support/wait.js'

/** Length of the pause in ms. It exceeds the 15 s after which agents close a connection without a ping's answer. */
const pauseMs = 17_000

/** During the pause, both agents close their connections. The gateway notices this only for the host `closed`. */
describe('a gateway whose process was paused', function () {
  let directory: string
  let gateway: GatewayProcess
  let line: CutLine
  const agents: LabAgent[] = []

  before(async () => {
    directory = await mkdtemp(join(tmpdir(), 'btest-paused-'))
    gateway = await GatewayProcess.create(directory, '127.0.0.1', { agents: { reconnect_ms: 10_000 } })
    gateway.start()
    await gateway.ready()
    const [closed, silent] = [await addHost('closed', 1), await addHost('silent', 2)]
    line = await CutLine.start(`http://${silent.agent.address}`)
    await setAddress(closed.hostId, closed.agent.address)
    await setAddress(silent.hostId, line.address)
    await waitFor(async () => (await states()).every((state) => state === 'online'), { what: 'both online' })
  })
  after(async () => {
    await gateway?.close()
    await line?.close()
    for (const agent of agents) await agent.destroy()
    await rm(directory, { recursive: true, force: true })
  })

  async function addHost(name: string, firstId: number): Promise<{ hostId: string; agent: LabAgent }> {
    const body = { name, address: `127.0.0.1:${firstId}` }
    const { data } = (await gateway.request('POST', '/hosts', { body })).body
    const identityDir = join(directory, name)
    await joinGateway(data.join_token, identityDir)
    const agent = await LabAgent.start({ identityDir })
    agents.push(agent)
    agent.seed(1, firstId)
    return { hostId: data.host.id, agent }
  }

  const setAddress = (hostId: string, address: string): Promise<GatewayReply> =>
    gateway.request('PATCH', `/hosts/${hostId}`, { body: { address } })
  const states = async (): Promise<string[]> =>
    ((await gateway.request('GET', '/hosts')).body.data as { status: string }[]).map(({ status }) => status)
  const request = async (method: string, path: string): Promise<number> => (await gateway.request(method, path)).status

  it('answers requests that arrived during the pause, and the first requests after the pause', async () => {
    for (const id of [1, 2]) expect(await request('GET', `/containers/${id}/usage`)).to.equal(200)
    process.kill(gateway.pid, 'SIGSTOP')
    try {
      line.silence()
      const early = [1, 2].map((id) => request('GET', `/containers/${id}/usage`))
      const writes = [1, 2].map((id) => request('POST', `/containers/${id}/restart`))
      await delay(pauseMs)
      process.kill(gateway.pid, 'SIGCONT')
      const seen: string[] = []
      for (let round = 0; round < 20; round++) {
        const replies = await Promise.all([1, 2].map((id) => request('GET', `/containers/${id}/usage`)))
        seen.push([...replies, ...(await states())].join(' '))
        await delay(100)
      }
      expect(new Set(seen)).to.deep.equal(new Set(['200 200 online online']))
      expect(await Promise.all(early)).to.deep.equal([200, 200])
      expect(await Promise.all(writes)).to.deep.equal([202, 202])
    } finally {
      process.kill(gateway.pid, 'SIGCONT')
    }
  })
})
