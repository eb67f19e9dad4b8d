import { expect } from 'chai'
import { existsSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { connect } from 'node:tls'
import { joinGateway } from '../../agent/enrollment/join.js'
import { ensureAuthority, type Authority } from '../../gateway/pki/authority.js'
import { fingerprintOf } from '../../shared/identity.js'
import { splitHostPort } from '../../shared/join-token.js'
import { EventStream } from '../support/gateway/event-stream.js'
import { GatewayGroup, type GroupMember } from '../support/gateway/gateway-group.js'
import { GatewayProcess, shareState } from '../support/gateway/gateway-process.js'
import { LabAgent } from '../support/memory/lab-agent.js'
import { freePort } from '../support/ports.js'
import { waitFor } from '../support/wait.js'

interface Ca {
  readonly fingerprint: string
  readonly rotation: {
    readonly state: string
    readonly fingerprint: string
    readonly missing_hosts: readonly { name: string; reason: string; excluded: boolean }[]
    readonly missing_gateways: readonly { id: string }[]
  }
}

interface TestHost {
  readonly id: string
  readonly name: string
  readonly agent: LabAgent
}

/** Two gateway processes and three agents. Each test continues where the one before ended. */
describe('a rotation of the CA with two gateways', function () {
  this.bail(true)
  let group: GatewayGroup
  let one: TestHost
  let two: TestHost
  let three: TestHost
  let oldCa: Authority
  let pids: ReadonlyMap<string, number>
  const agents: LabAgent[] = []

  before(async () => {
    group = await GatewayGroup.start(2)
    oldCa = await ensureAuthority(join(group.directory, '0/state/pki'), 1)
    one = await addHost('one', 1)
    two = await addHost('two', 11)
    three = await addHost('three', 21)
    pids = pidsOf()
  })
  after(async () => {
    for (const agent of agents) await agent.destroy()
    await group?.close()
  })

  const member = (at: number): GroupMember => group.members[at]!
  const stateOf = (at: number): string => join(group.directory, String(at), 'state')
  const read = async (at = 0): Promise<Ca> => (await member(at).request('GET', '/fleet/ca')).body.data as Ca
  const statusAt = async (at: number, { id }: TestHost): Promise<string | undefined> =>
    ((await member(at).request('GET', `/hosts/${id}`)).body.data as { status: string } | undefined)?.status
  const authoritiesOf = ({ agent }: TestHost): number => agent.tls.identity().authorities.length
  const issuerOf = ({ agent }: TestHost): string => fingerprintOf(agent.tls.identity().caPem)

  async function addHost(name: string, firstId: number): Promise<TestHost> {
    const address = `127.0.0.1:${await freePort()}`
    const reply = await member(0).request('POST', '/hosts', { body: { name, address } })
    const { host: created, join_token: token } = reply.body.data as { host: { id: string }; join_token: string }
    const { id } = created
    const identityDir = join(group.directory, `agent-${name}`)
    await joinGateway(token, identityDir)
    const agent = await LabAgent.start({ identityDir, listen: address, stateDir: `${identityDir}-state` })
    agents.push(agent)
    agent.seed(2, firstId)
    const host = { id, name, agent }
    for (const at of [0, 1]) await online(at, host)
    return host
  }

  const online = (at: number, host: TestHost): Promise<unknown> =>
    waitFor(async () => (await statusAt(at, host)) === 'online', { what: `${host.name} online at gateway ${at}` })

  async function reached(state: string, at = 0): Promise<void> {
    let last: unknown
    await waitFor(
      async () => {
        const ca = await read(at)
        last = ca
        return ca.rotation.state === state
      },
      {
        what: () =>
          `${state}: ${JSON.stringify(last)}\n${member(0).process.logTail(2000)}\n${member(1).process.logTail(2000)}`,
      },
    )
  }

  async function order(path: string, body: object = {}, at = 0): Promise<Ca> {
    const reply = await member(at).request('POST', path, { body })
    expect(reply.status, reply.text).to.equal(202)
    return reply.body.data as Ca
  }

  /** Pids of the guests that no test restarts: the first one of each host. */
  function pidsOf(): Map<string, number> {
    const found = new Map<string, number>()
    for (const { agent } of [one, two, three])
      for (const { name, uuid } of agent.guests())
        if (['sim-1', 'sim-11', 'sim-21'].includes(name)) found.set(name, agent.host.driver.running.get(uuid)!)
    return found
  }

  async function ended(data: unknown, at: number): Promise<void> {
    const { task_id: id } = data as { task_id: string }
    let last: unknown
    const isEnded = async (): Promise<boolean> => {
      last = (await member(at).request('GET', `/tasks/${id}`)).body.data
      return (last as { status: string }).status === 'done'
    }
    await waitFor(isEnded, { what: () => `the task ${JSON.stringify(last)}` })
  }

  /** Runs an operation, kills a gateway and restarts an agent. None of this may disturb the guests or event streams. */
  async function disturb(killed: number): Promise<void> {
    const other = 1 - killed
    const stream = await EventStream.open(member(other).url, { 'x-api-key': member(0).process.adminKey })
    const ordered = await member(other).request('POST', '/containers/sim-2/restart', { body: {} })
    expect(ordered.status, ordered.text).to.equal(202)
    await member(killed).process.kill('SIGKILL')
    member(killed).process.start()
    await waitFor(
      async () =>
        (
          await member(killed)
            .request('GET', '/dashboard')
            .catch(() => undefined)
        )?.status === 200,
      { what: `gateway ${killed}` },
    )
    await ended(ordered.body.data, other)
    await one.agent.restart()
    for (const at of [0, 1]) await online(at, one)
    expect(stream.closed).to.equal(false)
    stream.close()
    expect(pidsOf()).to.deep.equal(pids)
  }

  it('distributes the new CA to both gateways and to online hosts', async () => {
    for (const { agent } of [two, three]) await agent.stop()
    const ca = await order('/fleet/ca/rotation')
    expect(ca.rotation.state).to.equal('distributing')
    await waitFor(() => authoritiesOf(one) === 2, { what: 'two CAs at the first host' })
    await waitFor(() => existsSync(join(stateOf(1), 'pki/next-authority.pem')), { what: 'the CA of the other gateway' })
    await waitFor(async () => (await read(1)).rotation.missing_gateways.length === 0, { what: 'both gateways' })
    await disturb(0)
    const areOffline = ({ rotation }: Awaited<ReturnType<typeof read>>): boolean =>
      rotation.missing_hosts.every(({ reason }) => reason === 'offline')
    await waitFor(async () => areOffline(await read(1)), { what: 'the stopped hosts are shown as offline' })
    const { rotation } = await read(1)
    expect(rotation.state).to.equal('distributing')
    expect(rotation.missing_hosts.map(({ name, reason }) => `${name}: ${reason}`)).to.have.members([
      'two: offline',
      'three: offline',
    ])
  })

  it('gives both gateways the same CA, with an encrypted key in the store', async () => {
    const [first, second] = [0, 1].map((at) => readFileSync(join(stateOf(at), 'pki/next-authority.pem'), 'utf8'))
    expect(first).to.equal(second)
    const store = await group.redis.openStore('berth:')
    const text = await store.run('read the rotation', (client) => client.get(store.key('ca-rotation')))
    await store.close()
    expect(text).to.contain('BEGIN CERTIFICATE').and.not.to.contain('PRIVATE KEY')
  })

  it('issues certificates of the new CA as soon as all hosts trust it', async () => {
    await three.agent.resume()
    await waitFor(() => authoritiesOf(three) === 2, { what: 'two CAs at the third host' })
    await three.agent.stop()
    await two.agent.resume()
    await reached('reissuing')
    await waitFor(() => issuerOf(one) !== oldCa.fingerprint && issuerOf(two) !== oldCa.fingerprint, {
      what: 'certificates of the new CA',
    })
    await disturb(1)
    const { rotation } = await read()
    expect([rotation.state, rotation.missing_hosts.map(({ name }) => name)]).to.deep.equal(['reissuing', ['three']])
    await three.agent.resume()
    await reached('ready')
    await disturb(0)
  })

  it('moves guests between hosts while both CAs are trusted', async () => {
    const reply = await member(1).request('POST', '/containers/sim-12/migrate', { body: { host_id: three.id } })
    expect(reply.status, reply.text).to.equal(202)
    await ended(reply.body.data, 0)
  })

  it('gives the new CA to a gateway that joins during the rotation', async () => {
    const directory = join(group.directory, 'late')
    const added = await GatewayProcess.create(directory, '127.0.0.1', { redis: { url: group.redis.url } })
    shareState(member(0).process, added)
    const file = join(directory, 'state/pki/next-authority.pem')
    rmSync(file)
    added.start()
    const late = added.withKey(member(0).process.adminKey)
    const isReady = async (): Promise<boolean> => {
      const { status, body } = await late.request('GET', '/hosts')
      const rows = status === 200 ? (body.data as { status: string }[]) : []
      return rows.length === 3 && rows.every((row) => row.status === 'online')
    }
    await waitFor(async () => existsSync(file) && (await isReady().catch(() => false)), {
      what: () => `all hosts online at the added gateway\n${added.logTail(2000)}`,
    })
    const { id } = JSON.parse(readFileSync(join(directory, 'state/gateway.json'), 'utf8')) as { id: string }
    await waitFor(async () => (await read()).rotation.missing_gateways.length === 0, { what: 'the added gateway' })
    expect((await member(0).request('DELETE', `/gateways/${id}`)).status).to.equal(200)
    expect(await added.ended()).to.equal(2)
  })

  it('stops trusting the old CA when the administrator finishes the rotation', async () => {
    await three.agent.stop()
    await order('/fleet/ca/rotation/finish', {}, 1)
    await reached('ending')
    await waitFor(() => authoritiesOf(one) === 1 && authoritiesOf(two) === 1, { what: 'hosts without the old CA' })
    await disturb(1)
    await three.agent.resume()
    await reached('ended')
    for (const at of [0, 1]) {
      await waitFor(async () => (await read(at)).fingerprint !== oldCa.fingerprint, { what: `the CA of gateway ${at}` })
      expect(existsSync(join(stateOf(at), 'pki/next-authority.pem'))).to.equal(false)
    }
    await disturb(0)
    for (const host of [one, two, three]) for (const at of [0, 1]) await online(at, host)
  })

  it('makes hosts refuse gateways with certificates of the old CA', async () => {
    const leaf = await oldCa.issue({ role: 'gateway' }, 3_600_000)
    const socket = connect({
      ...splitHostPort(one.agent.address),
      cert: leaf.certificatePem,
      key: leaf.privateKeyPem,
      rejectUnauthorized: false,
    })
    const failure = await new Promise<string>((resolve) => {
      socket.on('error', ({ message }) => resolve(message))
      socket.on('close', () => resolve('closed'))
      socket.on('data', () => resolve('data'))
    })
    expect(failure).to.match(/unknown ca|closed|certificate/i)
  })
})
