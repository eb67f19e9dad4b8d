import { expect } from 'chai'
import { execFileSync, spawnSync } from 'node:child_process'
import { generateKeyPairSync } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, statSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { createClient } from 'redis'
import { joinGateway } from '../../agent/enrollment/join.js'
import { parseJoinToken } from '../../shared/join-token.js'
import { endLeftGateway, GatewayProcess } from '../support/gateway/gateway-process.js'
import { startTestRedis, type TestRedis } from '../support/gateway/redis.js'
import { scratchDirectory } from '../support/scratch.js'
import { eventually, waitFor } from '../support/wait.js'

const scratch = 'btest-gateways'
const page = 'docs/gateways.md'
const program = resolve(import.meta.dirname, '../../dist/gateway/main.js')

interface GatewayRow {
  readonly id: string
  readonly name: string
  readonly state: string
  readonly answers: boolean
  readonly leases: string[]
  readonly load_percent: number | null
  readonly join_address: string
}

interface CommandResult {
  readonly code: number | null
  readonly output: string
}

/** Three gateways of a fleet as processes. Each test continues where the one before ended. */
describe('several gateways', function () {
  this.bail(true)
  const directory = join('/var/tmp', scratch)
  let redis: TestRedis
  let first: GatewayProcess
  let second: GatewayProcess
  let third: GatewayProcess
  let thirdToken: string
  let wipe: (() => void) | undefined
  const keyPem = generateKeyPairSync('x25519').privateKey.export({ type: 'pkcs8', format: 'pem' })

  before(async () => {
    for (const name of ['first', 'second', 'third']) await endLeftGateway(join(directory, name))
    wipe = scratchDirectory(scratch).wipe
    first = await GatewayProcess.create(join(directory, 'first'))
    first.start()
    await first.ready()
    // Before they join, each of these gateways has a fleet of its own, without hosts and administrators.
    second = await GatewayProcess.create(join(directory, 'second'))
    third = await GatewayProcess.create(join(directory, 'third'))
  })
  after(async () => {
    for (const gateway of [first, second, third]) await gateway?.close()
    await redis?.stop()
    wipe?.()
  })

  const rowsOf = async (gateway: Pick<GatewayProcess, 'request'>): Promise<GatewayRow[]> =>
    (await gateway.request('GET', '/gateways')).body.data as GatewayRow[]
  const stateDir = (gateway: GatewayProcess): string => join(gateway.directory, 'state')

  /** Runs `berth-gateway join` on the machine of a gateway. */
  const runJoin = (gateway: GatewayProcess, token: string, ...options: string[]): CommandResult =>
    runCommand(gateway, 'join', token, '--no-service', ...options)

  function runCommand(gateway: GatewayProcess, ...words: string[]): CommandResult {
    const args = [program, ...words, '--config', join(gateway.directory, 'gateway.yaml')]
    const { status, stdout, stderr } = spawnSync(process.execPath, args, { encoding: 'utf8' })
    return { code: status, output: stdout + stderr }
  }

  /** Makes `berth-gateway join` use a fixed key. Two test machines with this key count as the same machine. */
  function placeKey(gateway: GatewayProcess): void {
    mkdirSync(join(stateDir(gateway), 'joining'), { recursive: true })
    writeFileSync(join(stateDir(gateway), 'joining/key.pem'), keyPem)
  }

  /** Enters the address of the store into gateway.yaml. */
  function setStore(gateway: GatewayProcess, url: string): void {
    const path = join(gateway.directory, 'gateway.yaml')
    const config = JSON.parse(readFileSync(path, 'utf8')) as object
    writeFileSync(path, JSON.stringify({ ...config, redis: { url } }))
  }

  async function invite(name?: string): Promise<{ token: string; id: string }> {
    const reply = await first.request('POST', '/gateways', { body: name === undefined ? {} : { name } })
    expect(reply.status, JSON.stringify(reply.body)).to.equal(201)
    const { join_token: token, id, command } = reply.body.data as { join_token: string; id: string; command: string }
    expect(command).to.equal(`echo ${token} | berth-gateway join -`)
    return { token, id }
  }

  /** Returns the same gateway, to which requests are sent with the administrator's key of the first gateway. */
  const asFleetAdmin = (gateway: GatewayProcess): Pick<GatewayProcess, 'request'> => gateway.withKey(first.adminKey)

  it('keep all data of the first gateway during the documented move of its store to another Redis server', async () => {
    await first.request('POST', '/hosts', { body: { name: 'early', address: '127.0.0.1:7' } })
    await first.kill('SIGTERM')
    const server = join(directory, 'server')
    mkdirSync(join(server, 'redis'), { recursive: true })
    const [copy] = /^ +cp -a .*$/m.exec(readFileSync(page, 'utf8'))!
    const command = copy
      .replace('/var/lib/berth/gateway', stateDir(first))
      .replace('/var/lib/redis', join(server, 'redis'))
    execFileSync('sh', ['-c', command])
    redis = await startTestRedis({ stateDir: server })
    setStore(first, redis.url)
    first.start()
    await first.ready()
    const { body } = await first.request('GET', '/hosts')
    expect((body.data as { name: string }[]).map(({ name }) => name)).to.deep.equal(['early'])
  })

  it('begin with one gateway, which lists only itself', async () => {
    await waitFor(async () => (await rowsOf(first))[0]?.state === 'online', { what: 'the state of the gateway' })
    const [row, ...others] = await rowsOf(first)
    expect(others).to.deep.equal([])
    expect(row?.answers).to.equal(true)
  })

  it('list an invited gateway with the state “invited”', async () => {
    const { id } = await invite('withdrawn')
    expect((await rowsOf(first)).find((row) => row.id === id)).to.include({ name: 'withdrawn', state: 'invited' })
  })

  it('refuse the token of an invitation that was withdrawn', async () => {
    const { token, id } = await invite()
    expect((await first.request('DELETE', `/gateways/${id}`)).status).to.equal(200)
    const { code, output } = runJoin(second, token, '--replace')
    expect(code).to.equal(1)
    expect(output).to.contain('the join token was withdrawn')
  })

  it('refuse to add a gateway with the join token of a host', async () => {
    const { body } = await first.request('POST', '/hosts', { body: { name: 'host', address: '127.0.0.1:9' } })
    const { join_token: token } = body.data as { join_token: string }
    expect(runJoin(second, token).output).to.contain('it is for a host')
  })

  it('refuse invitations while the store is the private Redis server of one gateway', async () => {
    second.start()
    await second.ready()
    // On a busy machine, the connection to the Redis server that has just started may break once.
    await eventually(async () => {
      const { status, body } = await second.request('POST', '/gateways', { body: {} })
      expect([status, body.code]).to.deep.equal([409, 'store_not_shared'])
    })
  })

  it('refuse to add a gateway with hosts of its own, except with --replace, which saves its former data', async () => {
    await second.request('POST', '/hosts', { body: { name: 'other', address: '127.0.0.1:9' } })
    const { token } = await invite('second')
    expect(runJoin(second, token).output).to.contain('add --replace')
    await second.kill('SIGTERM')
    const formerSecret = readFileSync(join(stateDir(second), 'secret'), 'utf8')
    const joined = runJoin(second, token, '--replace')
    expect(joined.code, joined.output).to.equal(0)
    const [former] = readdirSync(stateDir(second)).filter((name) => name.startsWith('before-joining-as-'))
    expect(readFileSync(join(stateDir(second), former!, 'secret'), 'utf8')).to.equal(formerSecret)
  })

  it('serve the same fleet as soon as the second gateway has started', async () => {
    second.start()
    await waitFor(
      async () =>
        (
          await asFleetAdmin(second)
            .request('GET', '/hosts')
            .catch(() => undefined)
        )?.status === 200,
      {
        what: () => `the second gateway\n${second.logTail()}`,
      },
    )
    const rows = async (): Promise<GatewayRow[]> => rowsOf(asFleetAdmin(second))
    await waitFor(async () => (await rows()).filter(({ state }) => state === 'online').length === 2, { what: 'both' })
    const own = (await rows()).find(({ answers }) => answers)!
    expect(own.name).to.equal('second')
    expect((await rowsOf(first)).flatMap(({ leases }) => leases)).to.include('webhook-lease')
  })

  it('write together less than 20 times per second to Redis while they are idle', async () => {
    const client = createClient({ url: redis.url })
    await client.connect()
    const writes = async (): Promise<number> => {
      const calls = (await client.info('commandstats')).matchAll(/^cmdstat_set:calls=(\d+)/gm)
      return [...calls].reduce((sum, [, count]) => sum + Number(count), 0)
    }
    const [before, begunMs] = [await writes(), performance.now()]
    await delay(5000)
    expect((await writes()) - before).to.be.below((20 * (performance.now() - begunMs)) / 1000)
    client.destroy()
  })

  it('store the received secrets so that only root can read them, and leave no temporary files', () => {
    for (const name of ['secret', 'pki/authority.pem', 'store/settings.json'])
      expect(statSync(join(stateDir(second), name)).mode & 0o777, name).to.equal(0o600)
    expect(existsSync(join(stateDir(second), 'joining'))).to.equal(false)
  })

  it('let a host join through any gateway, even if the gateway that created its token has failed', async () => {
    const { body } = await asFleetAdmin(second).request('POST', '/hosts', {
      body: { name: 'late', address: '127.0.0.1:8' },
    })
    const { join_token: token } = body.data as { join_token: string }
    expect(parseJoinToken(token).addresses).to.have.length(2)
    await second.kill()
    await joinGateway(token, join(directory, 'identity'))
    second.start()
  })

  it('accept a used token again from the same machine, but not from another machine', async () => {
    thirdToken = (await invite('third')).token
    const token = thirdToken
    placeKey(third)
    expect(runJoin(third, token, '--replace')).to.include({ code: 0 })
    const same = await GatewayProcess.create(join(directory, 'same'))
    expect(runJoin(same, token, '--replace').output).to.contain('the join token was already used')
    placeKey(same)
    expect(runJoin(same, token, '--replace')).to.include({ code: 0 })
  })

  it('do not start after an interrupted join until the join is repeated', async () => {
    const joining = join(stateDir(third), 'joining')
    mkdirSync(joining)
    const incoming = ['pki', 'secret', 'store', 'admin-key-created', 'gateway.json']
    writeFileSync(join(joining, 'changing'), JSON.stringify(incoming))
    for (const name of ['secret', 'gateway.json']) renameSync(join(stateDir(third), name), join(joining, name))
    third.start()
    expect(await third.ended()).to.equal(1)
    expect(third.logTail()).to.contain('run berth-gateway join again')
    // The repeated join only moves the two files out of `joining`. It sends no request, so the used token suffices.
    expect(runJoin(third, thirdToken)).to.include({ code: 0 })
    expect(existsSync(joining)).to.equal(false)
    for (const name of ['secret', 'pki/authority.pem'])
      expect(readFileSync(join(stateDir(third), name)).equals(readFileSync(join(stateDir(first), name)))).to.equal(true)
  })

  it('start again if a join was killed just before its end and then repeated', () => {
    const joining = join(stateDir(third), 'joining')
    mkdirSync(joining)
    writeFileSync(join(joining, 'changing'), JSON.stringify(['pki', 'secret', 'store', 'gateway.json']))
    expect(runJoin(third, thirdToken)).to.include({ code: 0 })
    expect(existsSync(joining)).to.equal(false)
    expect(existsSync(join(stateDir(third), 'secret'))).to.equal(true)
  })

  it('refuse the command `purge` while other gateways use the store', () => {
    expect(runCommand(first, 'purge').output).to.contain('other gateways use this store')
  })

  it('stop a gateway that was removed, and never let it serve again', async () => {
    third.start()
    await waitFor(async () => (await rowsOf(first)).some((row) => row.name === 'third' && row.state === 'online'), {
      what: () => `the third gateway\n${third.logTail()}`,
    })
    const { id } = (await rowsOf(first)).find(({ name }) => name === 'third')!
    expect((await first.request('DELETE', `/gateways/${id}`)).status).to.equal(200)
    expect(await third.ended()).to.equal(2)
    third.start()
    expect(await third.ended()).to.equal(2)
    expect(third.logTail()).to.contain('was removed from its fleet')
    expect(runCommand(third, 'purge').output).to.contain('this gateway was removed from the fleet')
  })

  it('refuse to remove the gateway that receives the request', async () => {
    const { id } = (await rowsOf(first)).find(({ answers }) => answers)!
    const { status, body } = await first.request('DELETE', `/gateways/${id}`)
    expect([status, body.code]).to.deep.equal([409, 'own_gateway'])
  })

  it('refuse a join if gateway.yaml already names a store', async () => {
    const { token } = await invite()
    setStore(third, redis.url)
    expect(runJoin(third, token).output).to.contain('would use the store of the fleet')
  })
})
