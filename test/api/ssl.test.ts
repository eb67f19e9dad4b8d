import { once } from 'node:events'
import { createServer, type Server } from 'node:net'
import { connect as connectTls } from 'node:tls'
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https'
import { request as httpRequest } from 'node:http'
import { expect } from 'chai'
import { freePort } from '../support/ports.js'
import { makeAdmin, password } from '../support/browser.js'
import { startTestGateway, type Reply, type TestGateway } from '../support/test-gateway.js'
import { shownCertificate } from '../support/tls-client.js'
import { encrypted, TestAuthority } from '../support/tls-material.js'
import { waitFor } from '../support/wait.js'

const name = 'panel.example'
const dayMs = 86_400_000

describe('TLS of the API', () => {
  let gateway: TestGateway
  let authority: TestAuthority
  const ports = { http: 0, tls: 0 }
  before(async () => {
    authority = await TestAuthority.create()
    Object.assign(ports, { http: await freePort(), tls: await freePort() })
    gateway = await startTestGateway({
      trustedProxies: ['127.0.0.7'],
      tls: {
        listen: { host: '127.0.0.1', port: ports.tls },
        httpListen: { host: '127.0.0.1', port: ports.http },
        roots: [authority.rootPem],
      },
    })
  })
  after(() => gateway.close())

  const put = (body: object, options = {}): Promise<Reply> =>
    gateway.request('PUT', '/ssl', { body, ...options })
  const get = async (): Promise<Reply['body']> => (await gateway.request('GET', '/ssl')).body.data
  const shown = async (): Promise<string> =>
    (await shownCertificate({ host: '127.0.0.1', port: ports.tls }, name)).fingerprint256
  const upload = async (more: object = {}): Promise<Reply> => {
    const { certPem, keyPem } = await authority.issue(name)
    return put({ mode: 'uploaded', target: name, cert_pem: certPem, key_pem: keyPem, ...more })
  }
  const off = async (): Promise<void> => {
    expect((await put({ enabled: false })).status).to.equal(200)
  }

  /** Over TLS, checked against the root. */
  const overTls = (path: string, options: { agent?: HttpsAgent } = {}) =>
    new Promise<{ status: number; hsts: string | undefined }>((resolve, reject) => {
      const target = { host: '127.0.0.1', port: ports.tls, servername: name, path, ca: authority.rootPem }
      const headers = { 'x-api-key': gateway.adminKey, host: name }
      httpsRequest({ ...target, headers, ...options }, (response) => {
        response.resume()
        response.once('end', () =>
          resolve({
            status: response.statusCode ?? 0,
            hsts: response.headers['strict-transport-security'],
          }),
        )
      })
        .once('error', reject)
        .end()
    })

  /** To port 80. */
  const overHttp = (path: string, host: string, method = 'GET') =>
    new Promise<{ status: number; location: string | undefined }>((resolve, reject) => {
      httpRequest({ host: '127.0.0.1', port: ports.http, path, method, headers: { host } }, (response) => {
        response.resume()
        resolve({ status: response.statusCode ?? 0, location: response.headers.location })
      })
        .once('error', reject)
        .end()
    })

  const isRefused = (port: number): Promise<boolean> =>
    shownCertificate({ host: '127.0.0.1', port }).then(
      () => false,
      (error: NodeJS.ErrnoException) => error.code === 'ECONNREFUSED',
    )

  describe('modes', () => {
    it('is off at first, and nothing listens', async () => {
      expect(await get()).to.deep.equal({
        ...{ enabled: false, mode: 'disabled', target: '', email: '', needs_restart: false, port: 0 },
        ...{ certificate: null, warnings: [], detected_host: (await get()).detected_host },
      })
      expect(await isRefused(ports.tls)).to.equal(true)
    })

    it('self-signed: for the name chosen, kept when it is asked for again', async () => {
      const { status, text, body } = await put({ mode: 'self-signed', target: 'Panel.Example.' })
      expect(status, text).to.equal(200)
      expect(body.data).to.include({ enabled: true, mode: 'self_signed', target: name, port: ports.tls })
      expect(body.data).not.to.have.property('detected_host')
      expect(body.data.certificate).to.include({ subject: `CN=${name}`, trusted: false })
      expect(body.data.certificate.names).to.deep.equal([name])
      expect(await shown()).to.equal(body.data.certificate.fingerprint)
      const again = (await put({ enabled: true })).body.data
      expect(again.certificate.fingerprint).to.equal(body.data.certificate.fingerprint)
      await off()
      await waitFor(() => isRefused(ports.tls), { what: 'nothing listens' })
    })

    it('loses its target and address of mail when they are emptied while it is off', async () => {
      await put({ mode: 'self_signed', target: name, email: 'admin@panel.example' })
      const on = (await put({ target: '', email: '' })).body.data
      expect(on, 'they are in use').to.include({ target: name, email: 'admin@panel.example' })
      const { status, body } = await put({ enabled: false, target: '', email: '' })
      expect([status, body.data.target, body.data.email]).to.deep.equal([200, '', ''])
      expect(await get()).to.include({ target: '', email: '' })
    })

    it('self-signed for addresses', async () => {
      for (const [target, names] of [
        ['192.0.2.7', ['192.0.2.7']],
        ['[2001:db8::7]', ['2001:db8::7']],
      ] as const) {
        const { body, text } = await put({ mode: 'self_signed', target })
        expect(body.data?.certificate?.names, text).to.deep.equal(names)
        expect((await put({ enabled: true })).status, 'the same again').to.equal(200)
      }
    })

    it('uploaded: in use at once, in the right order, with HSTS where everybody trusts it', async () => {
      const { certPem, keyPem } = await authority.issue(name)
      const [leaf, middle] = certPem.match(/-----BEGIN[^-]+-----[^-]+-----END[^-]+-----\n/g)!
      const { status, text, body } = await put({
        ...{ mode: 'uploaded', target: name, cert_pem: `junk\n${middle}${leaf}`, key_pem: keyPem },
      })
      expect(status, text).to.equal(200)
      expect(body.data.certificate).to.include({ trusted: true, renews_at: '' })
      const { status: answered, hsts } = await overTls('/api/v1/dashboard')
      expect([answered, hsts]).to.deep.equal([200, 'max-age=86400'])
      expect((await gateway.request('GET', '/ssl')).headers).not.to.have.property('strict-transport-security')
    })

    it('logs people in: no header takes the place of another, with HSTS or without', async () => {
      await upload()
      await makeAdmin(gateway, 'ada')
      const body = JSON.stringify({ username: 'ada', password })
      const cookies = await new Promise<string[]>((resolve, reject) => {
        const target = { host: '127.0.0.1', port: ports.tls, servername: name, path: '/api/v1/login' }
        const headers = { 'content-type': 'application/json', 'content-length': body.length, host: name }
        httpsRequest({ ...target, ca: authority.rootPem, method: 'POST', headers }, (response) => {
          response.resume()
          response.once('end', () => resolve(response.headers['set-cookie'] ?? []))
        })
          .once('error', reject)
          .end(body)
      })
      expect(cookies.map((cookie) => cookie.split('=', 1)[0])).to.have.members([
        ...['__Host-berth', '__Host-berth-device'],
      ])
      for (const cookie of cookies) expect(cookie).to.match(/; Path=\/; HttpOnly; SameSite=Strict; Secure/)
    })

    it('goes back to what was uploaded before, without another upload', async () => {
      const before = (await upload()).body.data.certificate.fingerprint
      await put({ mode: 'self_signed' })
      expect(await shown()).not.to.equal(before)
      const { body } = await put({ mode: 'uploaded', cert_pem: '', key_pem: '' })
      expect(body.data.certificate.fingerprint).to.equal(before)
      expect(await shown()).to.equal(before)
    })

    it('is of administrators, and in the audit log without any key', async () => {
      const key = await gateway.makeKey({ scopes: ['host:*'] })
      expect((await gateway.request('GET', '/ssl', { key })).status).to.equal(403)
      expect((await put({ mode: 'disabled' }, { key })).status).to.equal(403)
      const { body, text } = await gateway.request('GET', '/audit-logs?action=ssl.update')
      const entries = body.data as { success: boolean }[]
      expect(entries.some(({ success }) => success)).to.equal(true)
      expect(text).not.to.match(/PRIVATE KEY/)
    })
  })

  describe('refuses, and stays as it is', () => {
    let fingerprint = ''
    before(async () => {
      fingerprint = (await upload()).body.data.certificate.fingerprint
    })
    afterEach(async () => {
      expect((await get()).certificate.fingerprint).to.equal(fingerprint)
      expect(await shown()).to.equal(fingerprint)
    })

    const refused = async (body: object, code: string, field?: string): Promise<void> => {
      const reply = await put({ mode: 'uploaded', target: name, ...body })
      expect([reply.status, reply.body.code, reply.body.details?.field], reply.text).to.deep.equal([
        ...[400, code, field],
      ])
      expect(reply.text).not.to.match(/PRIVATE KEY|[A-Za-z0-9+/]{60}/)
    }
    const pair = async (...given: Parameters<TestAuthority['issue']>) => {
      const { certPem, keyPem } = await authority.issue(...given)
      return { cert_pem: certPem, key_pem: keyPem }
    }

    it('a key of another certificate', async () => {
      const [one, other] = [await pair(name), await pair(name)]
      await refused({ ...one, key_pem: other.key_pem }, 'private_key_mismatch', 'key_pem')
    })

    it('one that has ended, and one that has not begun', async () => {
      const now = Date.now()
      const ended = await pair(name, { notBeforeMs: now - 9 * dayMs, notAfterMs: now - dayMs })
      await refused(ended, 'certificate_expired', 'cert_pem')
      const later = await pair(name, { notBeforeMs: now + dayMs })
      await refused(later, 'certificate_not_yet_valid', 'cert_pem')
    })

    it('one for another name', async () => {
      await refused(await pair('other.example'), 'certificate_name_mismatch', 'target')
      await refused(await pair('192.0.2.1'), 'certificate_name_mismatch', 'target')
    })

    it('one that is not for servers', async () => {
      await refused(await pair(name, { purposes: ['1.3.6.1.5.5.7.3.2'] }), 'certificate_unusable', 'cert_pem')
    })

    it('a chain with a gap', async () => {
      const { leafPem, keyPem } = await authority.issue(name)
      await refused({ cert_pem: leafPem, key_pem: keyPem }, 'certificate_chain_incomplete', 'cert_pem')
    })

    for (const bits of [1024, 8192])
      it(`an RSA key of ${bits} bits`, async () => {
        await refused(await pair(name, { rsaBits: bits }), 'certificate_key_size', 'key_pem')
      }).timeout(120_000)

    it('garbage', async () => {
      const good = await pair(name)
      for (const junk of ['x', '-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n', '\u0000'])
        await refused({ ...good, cert_pem: junk }, 'certificate_invalid', 'cert_pem')
      for (const junk of ['x', '-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n'])
        await refused({ ...good, key_pem: junk }, 'private_key_invalid', 'key_pem')
      await refused({ ...good, cert_pem: good.cert_pem + good.key_pem }, 'certificate_invalid', 'cert_pem')
    })

    it('a key with a passphrase', async () => {
      const good = await pair(name)
      for (const type of ['pkcs8', 'sec1'] as const)
        await refused({ ...good, key_pem: encrypted(good.key_pem, type) }, 'private_key_encrypted', 'key_pem')
    })

    it('half of an upload, a target that is none, and being on without a mode', async () => {
      const { cert_pem, key_pem } = await pair(name)
      await refused({ cert_pem }, 'missing_field', 'key_pem')
      await refused({ key_pem }, 'missing_field', 'cert_pem')
      for (const target of ['a b', '*.example', 'https://x', '1.2.3.400', '-a', `${'a'.repeat(64)}.example`])
        await refused({ target }, 'invalid_field', 'target')
      await refused({ email: 'a@b\r\nc' }, 'invalid_field', 'email')
      await refused({ mode: 'disabled', enabled: true }, 'invalid_field', 'mode')
    })

    it('a target that the certificate in use is not for', async () => {
      await refused({ target: 'other.example' }, 'certificate_name_mismatch', 'target')
    })
  })

  describe('ports', () => {
    let taken: Server
    beforeEach(async () => {
      await off()
      await waitFor(() => isRefused(ports.tls), { what: 'nothing listens' })
      taken = createServer()
    })
    afterEach(() => new Promise<void>((done) => void taken.close(() => done())))
    const take = (port: number) => new Promise<void>((done) => taken.listen(port, '127.0.0.1', done))

    it('one that another program has: refused, and TLS stays off', async () => {
      await take(ports.tls)
      const { status, body } = await put({ mode: 'self_signed' })
      expect([status, body.code]).to.deep.equal([409, 'port_conflict'])
      expect((await get()).enabled).to.equal(false)
    })

    it('port 80 of another program: TLS is on, with a warning', async () => {
      await waitFor(() =>
        overHttp('/', name).then(
          () => false,
          () => true,
        ),
      )
      await take(ports.http)
      const { status, body } = await put({ mode: 'self_signed' })
      expect(status).to.equal(200)
      expect(String(body.data.warnings)).to.match(/in use/)
    })
  })

  describe('port 80', () => {
    before(async () => {
      await off()
      expect((await upload()).status).to.equal(200)
      await waitFor(() =>
        overHttp('/', name).then(
          ({ status }) => status === 308,
          () => false,
        ),
      )
    })

    for (const [path, host, location] of [
      ['/', name, `https://${name}:PORT/`],
      ['/a?b=c', `${name}:80`, `https://${name}:PORT/a?b=c`],
      ['/x', '198.51.100.1', `https://${name}:PORT/x`],
      ['/x', 'evil.example', `https://${name}:PORT/x`],
      ['//evil.example/', name, `https://${name}:PORT//evil.example/`],
      ['http://evil.example/', name, `https://${name}:PORT/`],
      ['/', 'a@evil.example', `https://${name}:PORT/`],
    ] as const)
      it(`${path} of ${host} leads to TLS`, async () => {
        expect(await overHttp(path, host)).to.deep.equal({
          ...{ status: 308, location: location.replace('PORT', String(ports.tls)) },
        })
      })

    it('keeps method and body, and answers no challenge that is not open', async () => {
      expect((await overHttp('/api/v1/containers', name, 'POST')).status).to.equal(308)
      expect((await overHttp('/.well-known/acme-challenge/x', name)).status).to.equal(404)
    })
  })

  describe('HSTS', () => {
    it('is not sent where the certificate is not trusted', async () => {
      await put({ mode: 'self_signed', target: name })
      const agent = new HttpsAgent({ rejectUnauthorized: false })
      expect(await overTls('/healthz', { agent })).to.deep.equal({ status: 200, hsts: undefined })
    })
  })

  describe('the access policy', () => {
    const policy = (body: object) => gateway.request('PUT', '/access-policy', { body })
    afterEach(() => policy({ enabled: false }))

    it('holds over TLS, and not for port 80', async () => {
      await upload()
      expect((await overTls('/api/v1/dashboard')).status).to.equal(200)
      expect((await policy({ enabled: true, allowed_sources: ['192.0.2.0/24'] })).status).to.equal(200)
      expect((await overTls('/api/v1/dashboard')).status).to.equal(403)
      expect((await overHttp('/', name)).status).to.equal(308)
    })
  })

  describe('under load', () => {
    it('exchanges the certificate without a failed request', async () => {
      await upload()
      const agent = new HttpsAgent({ keepAlive: true, maxSockets: 8 })
      let [running, asked] = [true, 0]
      const ask = async (options: { agent?: HttpsAgent }): Promise<void> => {
        while (running) {
          expect((await overTls('/healthz', options)).status).to.equal(200)
          asked++
        }
      }
      const asking = [...Array<undefined>(4)].flatMap(() => [ask({ agent }), ask({})])
      const seen = new Set<string>()
      for (let round = 0; round < 5; round++) {
        const { status, body, text } = await upload()
        expect(status, text).to.equal(200)
        seen.add(body.data.certificate.fingerprint)
        expect(await shown()).to.equal(body.data.certificate.fingerprint)
      }
      running = false
      await Promise.all(asking)
      agent.destroy()
      expect(seen.size).to.equal(5)
      expect(asked).to.be.greaterThan(20)
    })
  })

  describe('a connection that is open', () => {
    it('goes on with the certificate that it began with', async () => {
      const before = (await upload()).body.data.certificate.fingerprint
      const at = { host: '127.0.0.1', port: ports.tls, servername: name, ca: authority.rootPem }
      const socket = connectTls(at)
      await once(socket, 'secureConnect')
      const ask = async (): Promise<string> => {
        socket.write(`GET /healthz HTTP/1.1\r\nHost: ${name}\r\n\r\n`)
        return String(((await once(socket, 'data')) as [Buffer])[0])
      }
      try {
        expect(await ask()).to.match(/^HTTP\/1.1 200 /)
        for (const exchange of [upload, () => put({ mode: 'self_signed' })]) {
          expect((await exchange()).status).to.equal(200)
          expect(await shown()).not.to.equal(before)
          expect(await ask()).to.match(/^HTTP\/1.1 200 /)
          expect(socket.getPeerCertificate().fingerprint256).to.equal(before)
        }
      } finally {
        socket.destroy()
      }
    })
  })

  describe('in the metrics', () => {
    it('is the end of the certificate', async () => {
      const metrics = async (): Promise<string> => (await gateway.request('GET', '/metrics')).text
      const figure = /^berth_tls_certificate_end_timestamp_seconds (\S+)$/m
      expect((await upload()).status).to.equal(200)
      const ends = Date.parse((await get()).certificate.not_after as string) / 1000
      expect(Number(figure.exec(await metrics())?.[1])).to.be.closeTo(ends, 1)
      await off()
      expect(await metrics()).to.not.match(figure)
    })
  })
})
