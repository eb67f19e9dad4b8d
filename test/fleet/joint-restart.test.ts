import { join } from 'node:path'
import { expect } from 'chai'
import { joinGateway } from '../../agent/enrollment/join.js'
import { endLeftGateway, GatewayProcess } from '../support/gateway/gateway-process.js'
import { LabAgent } from '../support/memory/lab-agent.js'
import { scratchDirectory } from '../support/scratch.js'
import { waitFor } from '../support/wait.js'

const name = 'btest-joint-restart'
/** Time in ms for which the gateway waits for its host. Even a busy machine takes less. */
const reconnectMs = 120_000

describe('a gateway that was restarted together with the agent of its host', function () {
  let gateway: GatewayProcess
  let agent: LabAgent
  let wipe: () => void

  const statusOf = async (): Promise<string | undefined> => {
    const reply = await gateway.request('GET', '/hosts').catch(() => undefined)
    return (reply?.body.data as { status: string }[] | undefined)?.[0]?.status
  }

  before(async () => {
    const directory = join('/var/tmp', name)
    await endLeftGateway(join(directory, 'gateway'))
    wipe = scratchDirectory(name).wipe
    gateway = await GatewayProcess.create(join(directory, 'gateway'), '127.0.0.1', {
      agents: { silence_ms: 10_000, call_timeout_ms: 60_000, reconnect_ms: reconnectMs },
    })
    gateway.start()
    await gateway.ready()
    const added = await gateway.request('POST', '/hosts', { body: { name: 'lab', address: '127.0.0.1:1' } })
    const { join_token, host } = added.body.data as { join_token: string; host: { id: string } }
    const identityDir = join(directory, 'identity')
    await joinGateway(join_token, identityDir)
    agent = await LabAgent.start({ identityDir, stateDir: join(directory, 'agent') })
    agent.seed(1)
    await gateway.request('PATCH', `/hosts/${host.id}`, { body: { address: agent.address } })
    await waitFor(async () => (await statusOf()) === 'online', { what: 'the host online' })
  })
  after(async () => {
    await gateway?.close()
    await agent?.destroy()
    wipe?.()
  })

  it('lets requests that need the host wait until the agent is back', async () => {
    await gateway.kill('SIGTERM')
    await agent.stop()
    gateway.start()
    await gateway.ready()
    expect(await statusOf()).to.equal('offline')
    const sizes = { virtualization: 'lxc', vcpu: 1, ram_mb: 128, disk_gb: 1 }
    const replies = Promise.all([
      gateway.request('PUT', '/containers/sim-1/expiry', { body: { expires_at: '2040-01-01 00:00:00' } }),
      gateway.request('GET', '/containers/sim-1/firewall'),
      gateway.request('POST', '/ssh-ticket', { body: { container_name: 'sim-1' } }),
      gateway.request('POST', '/containers', { body: { name: 'new', template_id: 'debian-12', ...sizes } }),
    ])
    await agent.resume()
    expect((await replies).map(({ status, body }) => `${status} ${body.code ?? ''}`.trim())).to.deep.equal([
      '200',
      '200',
      '200',
      '202',
    ])
  })
})
