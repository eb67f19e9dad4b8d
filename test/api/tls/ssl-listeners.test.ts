import { once } from 'node:events'
import { createServer, type Server } from 'node:net'
import { connect as connectTls } from 'node:tls'
import { Agent as HttpsAgent } from 'node:https'
import { expect } from 'chai'
import { name, SslLab } from '../../support/gateway/ssl-lab.js'
import type { TestGateway } from '../../support/gateway/test-gateway.js'
import type { TestAuthority } from '../../support/gateway/tls-material.js'
import { waitFor } from '../../support/wait.js'

describe('a gateway with TLS', () => {
  const lab = new SslLab()
  const { put, get, shown, upload, off, overTls, overHttp, isRefused, ports } = lab
  let gateway: TestGateway
  let authority: TestAuthority
  before(async () => {
    await lab.start()
    ;({ gateway, authority } = lab)
  })
  after(() => lab.close())

  describe('if another program uses one of its two ports', () => {
    let taken: Server
    beforeEach(async () => {
      await off()
      await waitFor(() => isRefused(ports.tls), { what: 'nothing listens' })
      taken = createServer()
    })
    afterEach(() => new Promise<void>((done) => void taken.close(() => done())))
    const take = (port: number) => new Promise<void>((done) => taken.listen(port, '127.0.0.1', done))

    it('cannot turn on HTTPS if the other program uses the HTTPS port', async () => {
      await take(ports.tls)
      const { status, body } = await put({ mode: 'self_signed', target: name })
      expect([status, body.code]).to.deep.equal([409, 'port_conflict'])
      expect((await get()).enabled).to.equal(false)
    })

    it('turns on HTTPS with a warning if the other program uses port 80', async () => {
      await waitFor(() =>
        overHttp('/', name).then(
          () => false,
          () => true,
        ),
      )
      await take(ports.http)
      const { status, body } = await put({ mode: 'self_signed', target: name })
      expect(status).to.equal(200)
      expect(String(body.data.warnings)).to.match(/in use/)
    })
  })

  describe('at port 80', () => {
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
      it(`redirects the request target ${path} with the Host header ${host} to ${location}`, async () => {
        expect(await overHttp(path, host)).to.deep.equal({
          status: 308,
          location: location.replace('PORT', String(ports.tls)),
        })
      })

    it('redirects a POST with the same method, and answers 404 to unknown challenges', async () => {
      expect((await overHttp('/api/v1/containers', name, 'POST')).status).to.equal(308)
      expect((await overHttp('/.well-known/acme-challenge/x', name)).status).to.equal(404)
    })
  })

  describe('if its certificate is not trusted', () => {
    it('does not send HSTS', async () => {
      await put({ mode: 'self_signed', target: name })
      const agent = new HttpsAgent({ rejectUnauthorized: false })
      expect(await overTls('/healthz', { agent })).to.deep.equal({ status: 200, hsts: undefined })
    })
  })

  describe('if it has an access policy', () => {
    const policy = (body: object) => gateway.request('PUT', '/access-policy', { body })
    afterEach(() => policy({ enabled: false }))

    it('answers excluded clients with 403 at the HTTPS port, and with a redirect at port 80', async () => {
      await upload()
      expect((await overTls('/api/v1/dashboard')).status).to.equal(200)
      expect((await policy({ enabled: true, allowed_sources: ['192.0.2.0/24'] })).status).to.equal(200)
      expect((await overTls('/api/v1/dashboard')).status).to.equal(403)
      expect((await overHttp('/', name)).status).to.equal(308)
    })
  })

  describe('under load', () => {
    it('changes its certificate without a failed request', async () => {
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
        const before = asked
        await waitFor(() => asked > before + 8, { what: 'answers with this certificate' })
      }
      running = false
      await Promise.all(asking)
      agent.destroy()
      expect(seen.size).to.equal(5)
    })
  })

  describe('if a connection is open', () => {
    it('keeps the connection when the certificate changes', async () => {
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
})
