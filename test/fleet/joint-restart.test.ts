import { join } from 'node:path'
import { expect } from 'chai'
import { joinGateway } from '../../agent/enrollment/join.js'
import { endLeftGateway, GatewayProcess } from '../support/gateway/gateway-process.js'
import { LabAgent } from '../support/memory/lab-agent.js'
import { scratchDirectory } from '../support/scratch.js'
import { waitFor } from '../support/wait.js'

const scratch = 'btest-joint-restart'
/** Time in ms for which the gateway waits for its host after a restart. The host needs less, even if it is busy. */
const reconnectMs = 120_000

describe('a gateway that restarts together with the agent of its host', function () {
  let gateway: GatewayProcess
  let agent: LabAgent
  const agents: LabAgent[] = []
  let wipe: () => void

  const sizes = { virtualization: 'lxc', vcpu: 1, ram_mb: 128, disk_gb: 1 }
  const statusOf = async (name = 'lab'): Promise<string | undefined> => {
    const reply = await gateway.request('GET', '/hosts').catch(() => undefined)
    const hosts = reply?.body.data as { name: string; status: string }[] | undefined
    return hosts?.find((host) => host.name === name)?.status
  }

  /** Adds a host with one guest, named `sim-ID`. */
  async function addHost(name: string, guestId: number): Promise<LabAgent> {
    const directory = join('/var/tmp', scratch)
    const added = await gateway.request('POST', '/hosts', { body: { name, address: `127.0.0.1:${guestId}` } })
    const { join_token, host } = added.body.data as { join_token: string; host: { id: string } }
    const identityDir = join(directory, `identity-${name}`)
    await joinGateway(join_token, identityDir)
    const agent = await LabAgent.start({ identityDir, stateDir: join(directory, `agent-${name}`) })
    agents.push(agent)
    agent.seed(1, guestId)
    await gateway.request('PATCH', `/hosts/${host.id}`, { body: { address: agent.address } })
    await waitFor(async () => (await statusOf(name)) === 'online', { what: `${name} online` })
    return agent
  }

  before(async () => {
    const directory = join('/var/tmp', scratch)
    await endLeftGateway(join(directory, 'gateway'))
    wipe = scratchDirectory(scratch).wipe
    gateway = await GatewayProcess.create(join(directory, 'gateway'), '127.0.0.1', {
      agents: { silence_ms: 10_000, call_timeout_ms: 60_000, reconnect_ms: reconnectMs },
    })
    gateway.start()
    await gateway.ready()
    agent = await addHost('lab', 1)
  })
  after(async () => {
    await gateway?.close()
    await Promise.all(agents.map((one) => one.destroy()))
    wipe?.()
  })

  it('delays requests that need the host, until the agent is connected again', async () => {
    await gateway.kill('SIGTERM')
    await agent.stop()
    gateway.start()
    await gateway.ready()
    expect(await statusOf()).to.equal('offline')
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

  it('can still change and create guests on connected hosts while another host is missing', async () => {
    const other = await addHost('other', 50)
    await gateway.kill('SIGTERM')
    await other.stop()
    gateway.start()
    await gateway.ready()
    const expiry = { body: { expires_at: '2040-01-01 00:00:00' } }
    const waiting = gateway.request('PUT', '/containers/sim-50/expiry', expiry)
    const replies = await Promise.all([
      gateway.request('PUT', '/containers/sim-1/expiry', expiry),
      gateway.request('POST', '/containers', { body: { name: 'newer', template_id: 'debian-12', ...sizes } }),
    ])
    expect(replies.map(({ status }) => status)).to.deep.equal([200, 202])
    await other.resume()
    expect((await waiting).status).to.equal(200)
  })
})
