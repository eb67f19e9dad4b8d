import { expect } from 'chai'
import { connect } from 'node:net'
import { startTestGateway, type TestGateway } from '../../support/gateway/test-gateway.js'
import { waitFor } from '../../support/wait.js'

const none = { perSecond: 0, atOnce: 0 }
const viaProxy = (address: string) => ({ headers: { 'x-forwarded-for': address } })

describe('limits on requests', () => {
  let gateway: TestGateway
  afterEach(() => gateway.close())

  it('are reported in each answer with the number of remaining requests', async () => {
    gateway = await startTestGateway({ limits: { caller: { perSecond: 1000, atOnce: 0 } } })
    const { headers } = await gateway.request('GET', '/containers')
    expect(headers['ratelimit-limit']).to.equal('1000')
    expect(Number(headers['ratelimit-remaining'])).to.be.within(900, 999)
    expect(headers['ratelimit-reset']).to.equal('1')
  })

  it('apply to each key separately', async () => {
    gateway = await startTestGateway({ limits: { caller: { perSecond: 5, atOnce: 0 } } })
    const [busy, quiet] = [await gateway.makeKey({}), await gateway.makeKey({})]
    const replies = await Promise.all(
      Array.from({ length: 50 }, () => gateway.request('GET', '/containers', { key: busy })),
    )
    const refused = replies.filter(({ status }) => status === 429)
    expect(refused).not.to.be.empty
    expect(replies.filter(({ status }) => status === 200)).to.have.length.within(5, 49)
    for (const { body, headers } of refused) {
      expect(body.code).to.equal('rate_limited')
      expect([headers['retry-after'], headers['ratelimit-limit']]).to.deep.equal(['1', '5'])
      expect(headers['ratelimit-remaining']).to.equal('0')
    }
    expect((await gateway.request('GET', '/containers', { key: quiet })).status).to.equal(200)
    await waitFor(async () => (await gateway.request('GET', '/containers', { key: busy })).status === 200)
  })

  it('apply to all callers of one address together, but not to health checks', async () => {
    gateway = await startTestGateway({
      limits: { address: { perSecond: 3, atOnce: 0 } },
      trustedProxies: ['127.0.0.1'],
    })
    const ask = (address: string, key: string) => gateway.request('GET', '/containers', { key, ...viaProxy(address) })
    const flood = await Promise.all(Array.from({ length: 40 }, (_, i) => ask(`2001:db8::${i + 1}`, 'no key')))
    expect(flood.map(({ status }) => status))
      .to.include(401)
      .and.to.include(429)
    expect((await ask('2001:db8:0:1::1', gateway.adminKey)).status).to.equal(200)
    expect((await gateway.request('GET', '/healthz', viaProxy('2001:db8::1'))).status).to.equal(200)
  })

  it('limit the number of concurrent requests, and free a slot when a request ends', async () => {
    gateway = await startTestGateway({ limits: { caller: { perSecond: 0, atOnce: 1 } } })
    const { port, hostname } = new URL(gateway.url)
    const begin = () => {
      const socket = connect({ port: Number(port), host: hostname }).resume()
      socket.write(
        `POST /api/v1/containers HTTP/1.1\r\nHost: x\r\nX-API-Key: ${gateway.adminKey}\r\n` +
          'Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{',
      )
      return socket
    }
    const status = async () => (await gateway.request('GET', '/containers')).status
    let slow = begin()
    // Requests of `status` count, too, so the limit may reject the slow request. `isHeld` then sends it again.
    const isHeld = async () => {
      if (!slow.closed) return (await status()) === 429
      slow = begin()
      return false
    }
    await waitFor(isHeld, { what: 'the other request counts' })
    const { body, headers } = await gateway.request('GET', '/containers')
    expect([body.code, headers['retry-after']]).to.deep.equal(['rate_limited', '1'])
    slow.destroy()
    await waitFor(async () => (await status()) === 200, { what: 'it is over' })
    for (let i = 0; i < 5; i++) expect(await status()).to.equal(200)
  })

  it('count a request as concurrent until the client has read the answer or has disconnected', async () => {
    gateway = await startTestGateway({
      limits: { caller: { perSecond: 0, atOnce: 1 } },
    })
    // The answer must be larger than the kernel's socket buffers, because the client does not read it.
    const portMappings = Array.from({ length: 1000 }, (_, n) => ({
      containerPort: n + 1,
      containerPortEnd: n + 1,
      hostPort: n + 1,
      hostPortEnd: n + 1,
      protocol: 'tcp' as const,
      hostIp: '',
      description: 'x'.repeat(200),
    }))
    for (let n = 0; n < 60; n++) await gateway.fleet.addGuest({ portMappings })
    const { port, hostname } = new URL(gateway.url)
    const reader = connect({ port: Number(port), host: hostname }).pause()
    reader.write(`GET /api/v1/containers HTTP/1.1\r\nHost: x\r\nX-API-Key: ${gateway.adminKey}\r\n\r\n`)
    const status = async () => (await gateway.request('GET', '/host-report')).status
    await waitFor(async () => (await status()) === 429, { what: 'the answer counts' })
    expect(await status()).to.equal(429)
    reader.destroy()
    await waitFor(async () => (await status()) === 200, { what: 'it is over' })
  })

  it('are applied and reported only if they are configured', async () => {
    gateway = await startTestGateway({ limits: { caller: none, address: none } })
    const { headers } = await gateway.request('GET', '/containers')
    expect(Object.keys(headers).filter((name) => name.startsWith('ratelimit'))).to.deep.equal([])
  })
})
