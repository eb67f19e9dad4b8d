import { expect } from 'chai'
import { Agent as HttpsAgent, get } from 'node:https'
import { AcmeProxy } from '../../support/gateway/acme-proxy.js'
import { Pebble } from '../../support/gateway/pebble.js'
import { freePort } from '../../support/ports.js'
import { startTestGateway, type TestGateway } from '../../support/gateway/test-gateway.js'
import { shownCertificate } from '../../support/gateway/tls-client.js'
import { TestAuthority } from '../../support/gateway/tls-material.js'
import { waitFor } from '../../support/wait.js'

const name = 'panel.example'
const problem = (type: string) => ({ type: `urn:ietf:params:acme:error:${type}`, detail: `said ${type}` })

describe('TLS with certificates from an ACME authority', () => {
  let pebble: Pebble
  let proxy: AcmeProxy
  let gateway: TestGateway
  let authority: TestAuthority
  const ports = { http: 0, tls: 0 }
  before(async () => {
    Object.assign(ports, { http: await freePort(), tls: await freePort() })
    pebble = await Pebble.start({ httpPort: ports.http, tlsPort: ports.tls, env: { PEBBLE_WFE_NONCEREJECT: '20' } })
    proxy = await AcmeProxy.start(pebble.port)
    authority = await TestAuthority.create()
  })
  after(async () => {
    await proxy.close()
    await pebble.stop()
  })

  const start = async (more: object = {}): Promise<void> => {
    gateway = await startTestGateway({
      tls: {
        listen: { host: '127.0.0.1', port: ports.tls },
        httpListen: { host: '127.0.0.1', port: ports.http },
        acme: { directory: proxy.url, caPem: proxy.caPem },
        ...more,
      },
    })
  }
  afterEach(async () => {
    Object.assign(proxy, { meddle: () => undefined, delayMs: 0 })
    await gateway.close()
  })
  const put = (body: object) => gateway.request('PUT', '/ssl', { body })
  const obtain = (target: string = name) => put({ mode: 'letsencrypt', target, email: 'a@panel.example' })
  const shown = async (): Promise<string> => (await shownCertificate(gateway.tls.address!)).fingerprint256

  describe('with an authority that refuses one in five nonces', () => {
    for (const [what, target, more] of [
      ['obtains a certificate for a domain name by HTTP-01', name, {}],
      ['obtains a certificate for an IP address by HTTP-01', '127.0.0.1', {}],
      ['obtains a certificate for a domain name by TLS-ALPN-01', name, { httpListen: undefined }],
      ['obtains a certificate for an IP address by TLS-ALPN-01', '127.0.0.1', { httpListen: undefined }],
    ] as const)
      it(what, async () => {
        await start(more)
        const { status, text, body } = await obtain(target)
        expect(status, text).to.equal(200)
        expect(body.data.certificate.names).to.deep.equal([target])
        expect(body.data.certificate.issuer).to.match(/Pebble/)
        expect(await shown()).to.equal(body.data.certificate.fingerprint)
        expect(gateway.tls.documents.challenge.value).to.equal(null)
      })

    it('obtains a certificate by TLS-ALPN-01 if another program uses port 80', async () => {
      await start({ httpListen: { host: '127.0.0.1', port: pebble.port } })
      const { status, text } = await obtain()
      expect(status, text).to.equal(200)
    })
  })

  it('uses only one account, and does not request an existing certificate again', async () => {
    await start()
    const { status, text, body } = await obtain()
    expect(status, text).to.equal(200)
    const first = body.data.certificate.fingerprint
    const orders = proxy.asked.length
    expect((await obtain()).body.data.certificate.fingerprint).to.equal(first)
    expect(proxy.asked.length).to.equal(orders)
    expect((await obtain('other.example')).status).to.equal(200)
    const accounts = gateway.tls.documents.accounts.value
    expect(Object.keys(accounts!)).to.deep.equal([proxy.url])
  })

  describe('keeps its certificate if the authority', () => {
    beforeEach(async () => {
      await start()
      expect((await put({ mode: 'self_signed', target: name })).status).to.equal(200)
    })

    const refused = async (status: number, code: string, target = name): Promise<Record<string, string>> => {
      const before = await shown()
      const reply = await obtain(target)
      expect([reply.status, reply.body.code], reply.text).to.deep.equal([status, code])
      expect(await shown()).to.equal(before)
      const { data } = (await gateway.request('GET', '/ssl')).body
      expect([data.enabled, data.mode]).to.deep.equal([true, 'self_signed'])
      return reply.headers
    }

    it('is down', async () => {
      await pebble.kill()
      await refused(503, 'acme_unavailable')
      await pebble.run()
      expect((await obtain()).status, 'succeeds once it runs again').to.equal(200)
    })

    it('is not an ACME server', async () => {
      proxy.meddle = () => ({ status: 200, problem: { hello: 'world' } })
      await refused(503, 'acme_unavailable')
    })

    it('refuses the account, the order or the certificate request', async () => {
      for (const [path, type] of [
        ['/sign-me-up', 'unauthorized'],
        ['/order-plz', 'rejectedIdentifier'],
        ['/finalize-order', 'badCSR'],
      ] as const) {
        proxy.meddle = (asked) => (asked.startsWith(path) ? { status: 403, problem: problem(type) } : undefined)
        await refused(409, 'acme_refused')
      }
    })

    it('cannot reach this gateway', async () => {
      proxy.meddle = () => undefined
      await gateway.close()
      const elsewhere = { host: '127.0.0.1', port: await freePort() }
      await start({ listen: { host: '127.0.0.1', port: await freePort() }, httpListen: elsewhere })
      expect((await put({ mode: 'self_signed', target: name })).status).to.equal(200)
      await refused(409, 'acme_refused')
    })

    it('limits the rate (the API answers 503 with the delay of the authority)', async () => {
      for (const [retryAfter, expected] of [
        ['1234', /^1234$/],
        [new Date(Date.now() + 100_000).toUTCString(), /^(9\d|100)$/],
      ] as const) {
        proxy.meddle = (path) =>
          path === '/order-plz'
            ? { status: 429, headers: { 'retry-after': retryAfter }, problem: problem('rateLimited') }
            : undefined
        expect((await refused(503, 'acme_rate_limited'))['retry-after']).to.match(expected)
      }
    })

    it('takes too long (the gateway gives up the order)', async () => {
      await gateway.close()
      await start({ acme: { directory: proxy.url, caPem: proxy.caPem, orderMs: 800 } })
      expect((await put({ mode: 'self_signed', target: name })).status).to.equal(200)
      for (const delayMs of [5000, 60]) {
        proxy.delayMs = delayMs
        await refused(504, 'acme_timeout')
      }
    })

    it('sends an invalid certificate', async () => {
      proxy.meddle = (path) => (path.startsWith('/certZ') ? { status: 200, problem: { certificate: 'x' } } : undefined)
      await refused(503, 'acme_unavailable')
    })

    it('refuses every nonce', async () => {
      proxy.meddle = (path) => (path === '/sign-me-up' ? { status: 400, problem: problem('badNonce') } : undefined)
      await refused(409, 'acme_refused')
    })

    it('is slow (further changes of TLS are refused until it answers)', async () => {
      proxy.delayMs = 150
      const slow = obtain()
      await waitFor(() => gateway.tls.documents.challenge.value, { what: 'a challenge is open' })
      expect((await obtain('other.example')).body.code).to.equal('ssl_busy')
      expect((await slow).status).to.equal(200)
    })
  })

  describe('when it renews a certificate', () => {
    const pauses = { firstMs: 60, lastMs: 200 }
    const timing = { checkEveryMs: 30, pauses }

    /** Replaces the certificate with one that is valid for only 10 more days, so that a renewal is due. */
    async function makeOld(): Promise<void> {
      const { settings } = gateway.tls.documents
      const dayMs = 86_400_000
      const now = Date.now()
      const { certPem, keyPem } = await authority.issue(name, {
        notBeforeMs: now - 80 * dayMs,
        notAfterMs: now + 10 * dayMs,
      })
      const leaf = { chainPem: certPem, keyPem }
      const aged = gateway.tls.documents.sealed(leaf, { mode: 'letsencrypt', target: name, trusted: false })
      await settings.update((old) => ({ ...old, current: aged, change: `aged ${Math.random()}` }))
    }

    it('replaces the certificate before it expires, without a failed request under load', async () => {
      await start({ timing })
      await obtain()
      const agent = new HttpsAgent({ keepAlive: true, maxSockets: 4 })
      const at = { ...gateway.tls.address!, path: '/healthz', rejectUnauthorized: false }
      let running = true
      const ask = (options: object) =>
        new Promise<void>((resolve, reject) => {
          get({ ...at, ...options }, (response) => {
            response.resume()
            response.once('end', () => (response.statusCode === 200 ? resolve() : reject(new Error('status'))))
          }).once('error', reject)
        })
      const asking = [{ agent }, { agent }, { agent: false }].map(async (options) => {
        while (running) await ask(options)
      })
      await makeOld()
      const old = gateway.tls.documents.settings.value!.current!.fingerprint
      await waitFor(() => gateway.tls.documents.settings.value!.current!.fingerprint !== old, {
        what: 'another certificate',
      })
      await waitFor(async () => (await shown()) === gateway.tls.documents.settings.value!.current!.fingerprint)
      running = false
      await Promise.all(asking)
      agent.destroy()
    })

    it('tries again after a failure, with a warning, as soon as the authority allows', async () => {
      await start({ timing })
      await obtain()
      await pebble.kill()
      await makeOld()
      const { renewal, settings } = gateway.tls.documents
      await waitFor(() => (renewal.value?.failures ?? 0) >= 3, { what: 'three failures' })
      const { warnings } = (await gateway.request('GET', '/ssl')).body.data
      expect(String(warnings)).to.match(/expires at .*renewal failed .*cannot be reached/)
      await pebble.run()
      const old = settings.value!.current!.fingerprint
      await waitFor(() => settings.value!.current!.fingerprint !== old, { what: 'renewed at last' })
      expect((await gateway.request('GET', '/ssl')).body.data.warnings).to.deep.equal([])
      proxy.meddle = () => ({ status: 503, headers: { 'retry-after': '600' }, problem: problem('x') })
      await makeOld()
      await waitFor(() => renewal.value!.nextMs > Date.now() + 590_000, { what: 'the requested delay' })
    })
  })
})
