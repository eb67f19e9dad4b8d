import { expect } from 'chai'
import { execFile } from 'node:child_process'
import { cpSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { createServer, request as send, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join, resolve } from 'node:path'
import { promisify } from 'node:util'
import { BerthClient, TaskFailedError, UnreachableError, type BerthEvent } from '../../client/index.js'
import { conflict } from '../../shared/errors.js'
import { startTestGateway, type TestGateway } from '../support/gateway/test-gateway.js'
import { scratchDirectory } from '../support/scratch.js'
import { waitFor } from '../support/wait.js'

const run = promisify(execFile)
const fields = { template_id: 'debian-12', ram_mb: 64, disk_gb: 1, vcpu: 0.1, start: false }

describe('the client for TypeScript', () => {
  const scratch = scratchDirectory('btest-client')
  let gateway: TestGateway
  let proxy: FaultyProxy
  let berth: BerthClient
  before(async () => {
    gateway = await startTestGateway()
    await gateway.fleet.work('host-a')
    proxy = await FaultyProxy.start(gateway.url)
    berth = new BerthClient({ url: proxy.url, key: gateway.adminKey })
  })
  after(async () => {
    proxy.close()
    await gateway.close()
    scratch.wipe()
  })

  it('repeats a creation with the same Idempotency-Key if its answer was lost, so that it runs only once', async () => {
    proxy.faults.push('lose-answer', 'too-many')
    const created = await berth.post('/containers', { body: { name: 'client-a', ...fields } })
    const [task] = await berth.waitForTasks(created)
    expect([created.data.name, task?.status]).to.deep.equal(['client-a', 'done'])
    const keys = proxy.requests.filter(({ method }) => method === 'POST').map(({ key }) => key)
    expect(keys).to.have.lengthOf(3)
    expect(new Set(keys).size).to.equal(1)
  })

  it('does not repeat a deletion whose answer was lost', async () => {
    await gateway.fleet.addGuest({ name: 'client-b' })
    proxy.faults.push('lose-answer')
    const deletion = berth.delete('/containers/{id}/delete', { path: { id: 'client-b' } })
    const error = await deletion.catch((cause: unknown) => cause)
    expect(error).to.be.instanceOf(UnreachableError)
    expect((error as UnreachableError).wasSent).to.equal(true)
  })

  it('requests the pages of a list one after another', async () => {
    for (const name of ['page-1', 'page-2', 'page-3']) await gateway.fleet.addGuest({ name })
    const before = proxy.requests.length
    const names: string[] = []
    for await (const { name } of berth.rows('/containers', { query: { sort: 'name' }, pageSize: 2 })) names.push(name)
    expect(names.filter((name) => name.startsWith('page-'))).to.deep.equal(['page-1', 'page-2', 'page-3'])
    expect(proxy.requests.length - before).to.equal(Math.ceil(names.length / 2))
  })

  it('reports the reason of a failed task', async () => {
    const { faults } = gateway.fleet.agentOf('host-a').host
    faults.start = () => {
      throw conflict('guest_broken', 'the guest is broken')
    }
    const started = await berth.post('/containers/{id}/start', { path: { id: 'client-a' }, body: {} })
    const error = await berth.waitForTasks(started).catch((cause: unknown) => cause)
    delete faults.start
    expect(error).to.be.instanceOf(TaskFailedError)
    expect((error as TaskFailedError).message).to.equal('start client-a failed: the guest is broken (guest_broken)')
  })

  it('continues after the last event if the connection for events is lost', async () => {
    const stop = new AbortController()
    const events: BerthEvent[] = []
    const reading = (async () => {
      for await (const event of berth.events({ kinds: ['guest'], signal: stop.signal })) events.push(event)
    })()
    await waitFor(() => events.some(({ kind }) => kind === 'ready'), { what: 'the stream' })
    await gateway.fleet.addGuest({ name: 'event-1' })
    await waitFor(() => events.some(({ data }) => data['name'] === 'event-1'), { what: 'the first event' })
    proxy.drop()
    await gateway.fleet.addGuest({ name: 'event-2' })
    await waitFor(() => events.some(({ data }) => data['name'] === 'event-2'), { what: 'the second event' })
    stop.abort()
    await reading
    expect(events.map(({ kind }) => kind)).not.to.include('reset')
    expect(events.filter(({ type }) => type === 'guest.created').map(({ data }) => data['name'])).to.deep.equal([
      'event-1',
      'event-2',
    ])
  })

  it('is a package whose documented examples compile and run', async () => {
    const packed = await run('npm', ['pack', resolve('dist/client'), '--pack-destination', scratch.path])
    const modules = join(scratch.path, 'node_modules/@berth')
    mkdirSync(modules, { recursive: true })
    await run('tar', ['-xzf', join(scratch.path, packed.stdout.trim()), '-C', modules])
    cpSync(join(modules, 'package'), join(modules, 'client'), { recursive: true })
    symlinkSync(resolve('node_modules/@types'), join(scratch.path, 'node_modules/@types'))
    symlinkSync(resolve('node_modules/undici-types'), join(scratch.path, 'node_modules/undici-types'))
    const page = readFileSync('docs/clients.md', 'utf8')
    const examples = [...page.matchAll(/```ts\n([^]*?)```/g)].map(([, example = '']) => example)
    expect(examples).to.have.lengthOf.above(3)
    writeFileSync(join(scratch.path, 'examples.ts'), examples.join('\n'))
    writeFileSync(join(scratch.path, 'package.json'), '{"type": "module"}')
    const options = ['--module', 'nodenext', '--target', 'es2022', '--types', 'node', '--strict', 'examples.ts']
    const compiled = run(process.execPath, [resolve('node_modules/tsgo/bin/tsc'), ...options], { cwd: scratch.path })
    await compiled.catch(({ stdout }: { stdout: string }) => expect.fail(stdout))
    const env = { ...process.env, BERTH_URL: gateway.url, BERTH_KEY: gateway.adminKey }
    const { stdout } = await run(process.execPath, ['examples.js'], { cwd: scratch.path, env })
    expect(stdout).to.match(/^\d+ web1$/m)
    expect((await berth.get('/containers/{id}', { path: { id: 'web1' } })).data.tags).to.include('paid')
  })
})

type Fault = 'lose-answer' | 'too-many'

/** A proxy in front of the gateway that loses answers. */
class FaultyProxy {
  /** Faults of the next requests that change something. */
  readonly faults: Fault[] = []
  readonly requests: { readonly method: string; readonly key: unknown }[] = []
  readonly #open = new Set<ServerResponse>()

  private constructor(
    private readonly target: string,
    private readonly server: Server,
  ) {
    server.on('request', (request: IncomingMessage, response: ServerResponse) => this.#handle(request, response))
  }

  static async start(target: string): Promise<FaultyProxy> {
    const server = createServer()
    await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
    return new FaultyProxy(target, server)
  }

  get url(): string {
    return `http://127.0.0.1:${(this.server.address() as AddressInfo).port}`
  }

  /** Drops all connections. */
  drop(): void {
    for (const response of this.#open) response.destroy()
  }

  close(): void {
    this.server.close()
    this.server.closeAllConnections()
  }

  #handle(request: IncomingMessage, response: ServerResponse): void {
    const { method = '', url = '', headers } = request
    this.requests.push({ method, key: headers['idempotency-key'] })
    this.#open.add(response)
    response.once('close', () => this.#open.delete(response))
    const fault = method === 'GET' ? undefined : this.faults.shift()
    if (fault === 'too-many') {
      request.resume()
      response.writeHead(429, { 'retry-after': '0' }).end('{}')
      return
    }
    const forwarded = send(this.target + url, { method, headers }, (answer) => {
      if (fault === 'lose-answer') return void answer.resume().once('end', () => response.destroy())
      response.writeHead(answer.statusCode ?? 0, answer.headers)
      answer.pipe(response)
    })
    response.once('close', () => forwarded.destroy())
    request.pipe(forwarded)
  }
}
