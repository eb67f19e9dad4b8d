import { request as httpsRequest } from 'node:https'
import { expect } from 'chai'
import { makeAdmin, password } from '../../support/gateway/browser.js'
import { name, SslLab } from '../../support/gateway/ssl-lab.js'
import type { TestGateway } from '../../support/gateway/test-gateway.js'
import type { TestAuthority } from '../../support/gateway/tls-material.js'
import { waitFor } from '../../support/wait.js'

describe('the TLS of a gateway, set through the API', () => {
  const lab = new SslLab()
  const { put, get, shown, upload, off, overTls, isRefused, ports } = lab
  let gateway: TestGateway
  let authority: TestAuthority
  before(async () => {
    await lab.start()
    ;({ gateway, authority } = lab)
  })
  after(() => lab.close())

  describe('in each mode in turn', () => {
    it('is off at first, and its port is closed', async () => {
      expect(await get()).to.deep.equal({
        enabled: false,
        mode: 'disabled',
        target: '',
        email: '',
        needs_restart: false,
        port: 0,
        certificate: null,
        warnings: [],
        detected_host: (await get()).detected_host,
      })
      expect(await isRefused(ports.tls)).to.equal(true)
    })

    it('creates a self-signed certificate for the given name, and keeps it if the request is repeated', async () => {
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

    it('deletes the domain name and mail address if a request turns TLS off and these fields are empty', async () => {
      await put({ mode: 'self_signed', target: name, email: 'admin@panel.example' })
      const on = (await put({ target: '', email: '' })).body.data
      expect(on, 'they are in use').to.include({ target: name, email: 'admin@panel.example' })
      const { status, body } = await put({ enabled: false, target: '', email: '' })
      expect([status, body.data.target, body.data.email]).to.deep.equal([200, '', ''])
      expect(await get()).to.include({ target: '', email: '' })
    })

    it('creates a self-signed certificate for IP addresses', async () => {
      for (const [target, names] of [
        ['192.0.2.7', ['192.0.2.7']],
        ['[2001:db8::7]', ['2001:db8::7']],
      ] as const) {
        const { body, text } = await put({ mode: 'self_signed', target })
        expect(body.data?.certificate?.names, text).to.deep.equal(names)
        expect((await put({ enabled: true })).status, 'the same again').to.equal(200)
      }
    })

    it('immediately uses an uploaded certificate and its chain, with HSTS if the certificate is trusted', async () => {
      const { certPem, keyPem } = await authority.issue(name)
      const [leaf, middle] = certPem.match(/-----BEGIN[^-]+-----[^-]+-----END[^-]+-----\n/g)!
      const { status, text, body } = await put({
        mode: 'uploaded',
        target: name,
        cert_pem: `junk\n${middle}${leaf}`,
        key_pem: keyPem,
      })
      expect(status, text).to.equal(200)
      expect(body.data.certificate).to.include({ trusted: true, renews_at: '' })
      const { status: answered, hsts } = await overTls('/api/v1/dashboard')
      expect([answered, hsts]).to.deep.equal([200, 'max-age=86400'])
      expect((await gateway.request('GET', '/ssl')).headers).not.to.have.property('strict-transport-security')
    })

    it('sets the session cookie and the device cookie of a login together with the HSTS header', async () => {
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
      expect(cookies.map((cookie) => cookie.split('=', 1)[0])).to.have.members(['__Host-berth', '__Host-berth-device'])
      for (const cookie of cookies) expect(cookie).to.match(/; Path=\/; HttpOnly; SameSite=Strict; Secure/)
    })

    it('uses the earlier uploaded certificate in the mode “uploaded” if the request has no certificate', async () => {
      const before = (await upload()).body.data.certificate.fingerprint
      await put({ mode: 'self_signed' })
      expect(await shown()).not.to.equal(before)
      const { body } = await put({ mode: 'uploaded', cert_pem: '', key_pem: '' })
      expect(body.data.certificate.fingerprint).to.equal(before)
      expect(await shown()).to.equal(before)
    })

    it('has settings that only administrators can use, and audits their changes without private keys', async () => {
      const key = await gateway.makeKey({ scopes: ['host:*'] })
      expect((await gateway.request('GET', '/ssl', { key })).status).to.equal(403)
      expect((await put({ mode: 'disabled' }, { key })).status).to.equal(403)
      const { body, text } = await gateway.request('GET', '/audit-logs?action=ssl.update')
      const entries = body.data as { success: boolean }[]
      expect(entries.some(({ success }) => success)).to.equal(true)
      expect(text).not.to.match(/PRIVATE KEY/)
    })
  })

  describe('keeps its certificate and refuses', () => {
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
      expect([reply.status, reply.body.code, reply.body.details?.field], reply.text).to.deep.equal([400, code, field])
      expect(reply.text).not.to.match(/PRIVATE KEY|[A-Za-z0-9+/]{60}/)
    }
    const pair = async (...given: Parameters<TestAuthority['issue']>) => {
      const { certPem, keyPem } = await authority.issue(...given)
      return { cert_pem: certPem, key_pem: keyPem }
    }

    it('the key of a different certificate', async () => {
      const [one, other] = [await pair(name), await pair(name)]
      await refused({ ...one, key_pem: other.key_pem }, 'private_key_mismatch', 'key_pem')
    })

    it('an incomplete upload, an invalid name, an invalid address, or TLS without a mode', async () => {
      const { cert_pem, key_pem } = await pair(name)
      await refused({ cert_pem }, 'missing_field', 'key_pem')
      await refused({ key_pem }, 'missing_field', 'cert_pem')
      await refused({ target: '*.example' }, 'invalid_field', 'target')
      await refused({ email: 'a@b\r\nc' }, 'invalid_field', 'email')
      await refused({ mode: 'disabled', enabled: true }, 'invalid_field', 'mode')
    })

    it('a name that the certificate in use does not contain', async () => {
      await refused({ target: 'other.example' }, 'certificate_name_mismatch', 'target')
    })
  })

  describe('in the metrics', () => {
    for (const [name, field] of [
      ['start', 'not_before'],
      ['end', 'not_after'],
    ] as const)
      it(`shows the ${name} of the certificate’s validity`, async () => {
        const metrics = async (): Promise<string> => (await gateway.request('GET', '/metrics')).text
        const figure = new RegExp(`^berth_tls_certificate_${name}_timestamp_seconds (\\S+)$`, 'm')
        expect((await upload()).status).to.equal(200)
        const time = Date.parse((await get()).certificate[field] as string) / 1000
        expect(Number(figure.exec(await metrics())?.[1])).to.be.closeTo(time, 1)
        await off()
        expect(await metrics()).to.not.match(figure)
      })
  })
})
