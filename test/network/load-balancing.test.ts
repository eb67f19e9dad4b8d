import { readFileSync } from 'node:fs'
import { expect } from 'chai'
import { ResumingConsole } from '../support/gateway/resuming-console.js'
import { ResumingStream } from '../support/gateway/resuming-stream.js'
import { BalancedLab, clients, sharedAddress } from '../support/network/balanced-lab.js'
import { BalancedLoad } from '../support/network/balanced-load.js'
import { waitFor } from '../support/wait.js'

interface AuditEntry {
  readonly action: string
  readonly address: string
  readonly detail: string
}

/** Tests the example configurations of docs/load-balancing.md with HAProxy and three gateways. */
describe('gateways behind HAProxy', function () {
  const lab = new BalancedLab()
  const formerCheck = process.env['NODE_TLS_REJECT_UNAUTHORIZED']
  before(async () => {
    process.env['NODE_TLS_REJECT_UNAUTHORIZED'] = '0' // the certificate of the test is self-signed
    await lab.start()
  })
  after(async () => {
    if (formerCheck === undefined) delete process.env['NODE_TLS_REJECT_UNAUTHORIZED']
    else process.env['NODE_TLS_REJECT_UNAUTHORIZED'] = formerCheck
    await lab.stop()
  })

  it('all receive requests from HAProxy', async () => {
    const offset = lab.log.length
    for (let n = 0; n < 30; n++) expect((await lab.ask('GET', '/containers')).status).to.equal(200)
    await waitFor(() => lab.answering(offset).size === 3, { what: 'requests at each gateway' })
  })

  it('accept API keys that another gateway has just created', async () => {
    for (let n = 0; n < 10; n++) {
      const { text } = await lab.ask('POST', '/api-keys', { body: { name: `key-${n}`, scopes: ['container:read'] } })
      const { key } = (JSON.parse(text) as { data: { key: string } }).data
      expect((await lab.ask('GET', '/containers', { headers: { 'x-api-key': key } })).status).to.equal(200)
    }
  })

  for (const client of clients)
    it(`record the real address ${client} of a client that pretends to have another address`, async () => {
      const headers = { 'x-forwarded-for': '203.0.113.9', 'x-real-ip': '203.0.113.9' }
      const body = { name: `from-${client}`, scopes: ['container:read'] }
      await lab.ask('POST', '/api-keys', { localAddress: client, headers, body })
      const { text } = await lab.ask('GET', '/audit-logs?per_page=50')
      const entries = (JSON.parse(text) as { data: AuditEntry[] }).data
      expect(entries.find((entry) => JSON.stringify(entry).includes(body.name))?.address, text).to.equal(client)
    })

  it('redirect HTTP requests to the same URL with HTTPS', async () => {
    const reply = await fetch(`http://${sharedAddress}/containers?a=b`, { redirect: 'manual' })
    expect([reply.status, reply.headers.get('location')]).to.deep.equal([308, `${lab.url}/containers?a=b`])
  })

  it('lose no request, and continue consoles and streams, while they restart one after another', async () => {
    const stream = new ResumingStream(lab.url, lab.headers)
    const shell = await ResumingConsole.open(lab.url, lab.headers['x-api-key']!, 'sim-1')
    await waitFor(() => stream.connections > 0, { what: 'the stream' })
    const load = new BalancedLoad(lab)
    for (const [index, gateway] of lab.gateways.entries()) {
      const offset = lab.log.length
      await waitForMore(load)
      await gateway.kill('SIGTERM')
      await waitForMore(load)
      gateway.start()
      await lab.waitForState(index, 'UP', offset)
    }
    await load.end()
    expect(load.failures).to.deep.equal([])
    await waitFor(() => stream.connections > 1, { what: 'the stream at another gateway' })
    await waitFor(() => shell.gapsMs.length > 0, { what: 'the console at another gateway' })
    for (const client of [stream, shell]) client.stop()
  })

  it('lose only unfinished changes if one of the gateways is killed', async () => {
    const load = new BalancedLoad(lab)
    const offset = lab.log.length
    await waitForMore(load)
    await lab.gateways[1]!.kill('SIGKILL')
    await lab.waitForState(1, 'DOWN', offset)
    await waitForMore(load)
    await load.end()
    const workers = load.failures.map(({ worker }) => worker)
    expect(new Set(workers).size, `one request of each worker: ${JSON.stringify(load.failures)}`).to.equal(
      workers.length,
    )
    expect(load.failures.filter(({ method }) => method === 'GET')).to.deep.equal([])
    lab.gateways[1]!.start()
    await lab.waitForState(1, 'UP', offset)
  })

  it('still get requests if no gateway is ready, so that clients get the error codes of Berth', async () => {
    const offset = lab.log.length
    await lab.signalStore('SIGSTOP')
    for (const index of lab.gateways.keys()) await lab.waitForState(index, 'DOWN', offset)
    const { status, text } = await lab.ask('POST', '/api-keys', { body: { name: 'late', scopes: ['container:read'] } })
    expect([status, (JSON.parse(text) as { code: string }).code]).to.deep.equal([503, 'store_unavailable'])
    await lab.signalStore('SIGCONT')
    for (const index of lab.gateways.keys()) await lab.waitForState(index, 'UP', offset)
  })

  it('have timeouts in HAProxy that are longer than slow answers and pauses of streams or consoles', () => {
    const text = readFileSync('docs/examples/haproxy.cfg', 'utf8')
    const seconds = (name: string): number => {
      const [, value, unit] = new RegExp(`^ +timeout ${name} (\\d+)(s|m)$`, 'm').exec(text)!
      return Number(value) * (unit === 'm' ? 60 : 1)
    }
    // The timeouts must exceed these times: 180 s for an answer, 15 s between beats of a stream, 25 s between pings.
    expect(seconds('server')).to.be.above(180)
    expect(seconds('client')).to.be.above(180)
    expect(seconds('tunnel')).to.be.above(2 * 25)
  })

  /** Waits until at least 50 further requests of each method (GET, POST) have succeeded. */
  async function waitForMore(load: BalancedLoad): Promise<void> {
    const before = ['GET', 'POST'].map((method) => load.count(method))
    await waitFor(() => ['GET', 'POST'].every((method, at) => load.count(method) > before[at]! + 50), {
      what: () => `requests succeed: ${JSON.stringify(load.failures.slice(0, 5))}`,
    })
  }
})
