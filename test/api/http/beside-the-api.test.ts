import { expect } from 'chai'
import { startTestGateway, type TestGateway } from '../../support/gateway/test-gateway.js'

describe('the endpoints outside of the API', () => {
  let gateway: TestGateway
  before(async () => {
    gateway = await startTestGateway()
  })
  after(() => gateway.close())

  it('return the health, the readiness and the metrics of the gateway', async () => {
    expect((await gateway.request('GET', '/healthz', { key: '' })).text).to.equal('ok\n')
    expect((await gateway.request('GET', '/readyz', { key: '' })).status).to.equal(200)
    const { id } = await gateway.fleet.addGuest()
    await gateway.request('POST', `/containers/${id}/start`, { body: {} })
    const { text, status } = await gateway.request('GET', '/metrics', { key: '' })
    expect(status).to.equal(200)
    expect(text)
      .to.match(/^berth_guests\{status="\w+"\} \d+$/m)
      .and.to.include('berth_host_up{host="host-a"} 1')
      .and.to.include('berth_host_outdated{host="host-a"} 1')
    expect(text)
      .to.include('berth_http_request_duration_seconds_bucket')
      .and.to.include('route="/containers/{id}/start"')
    expect(text).to.include('berth_store_up 1')
    expect(text).to.include('berth_host_disk_used_bytes{host="host-a"} 1500000000')
  })

  it('show metrics to a caller behind a proxy only if its key has the scope metrics:read', async () => {
    const ask = (key: string) =>
      gateway.request('GET', '/metrics', { key, headers: { 'x-forwarded-for': '127.0.0.1' } })
    expect((await ask('')).status).to.equal(401)
    expect((await ask(await gateway.makeKey({ scopes: ['host:*'] }))).status).to.equal(403)
    const bound = { scopes: ['*'], container_uuids: [(await gateway.fleet.addGuest()).uuid] }
    expect((await ask(await gateway.makeKey(bound))).status).to.equal(403)
    expect((await ask(await gateway.makeKey({ scopes: ['metrics:read'] }))).status).to.equal(200)
    expect((await ask(gateway.adminKey)).status).to.equal(200)
  })

  for (const [metricsFor, local, localWithKey, remoteWithKey] of [
    ['key', 401, 200, 200],
    ['loopback', 200, 200, 403],
  ] as const)
    it(`show metrics to the callers that the setting “${metricsFor}” allows`, async () => {
      const other = await startTestGateway({ metricsFor })
      try {
        const ask = async (key: string, headers = {}) =>
          (await other.request('GET', '/metrics', { key, headers })).status
        expect(await ask('')).to.equal(local)
        expect(await ask(other.adminKey)).to.equal(localWithKey)
        expect(await ask(other.adminKey, { 'x-forwarded-for': '192.0.2.1' })).to.equal(remoteWithKey)
      } finally {
        await other.close()
      }
    })

  it('serve the documentation without a key and without requests to other servers', async () => {
    const { text, headers } = await gateway.request('GET', '/docs', { key: '' })
    expect(headers['content-security-policy']).to.include("default-src 'none'").and.not.to.include('http')
    expect(text).not.to.match(/https?:/)
    for (const [, path = ''] of text.matchAll(/(?:src|href)="([^"]+)"/g))
      expect((await gateway.request('GET', path, { key: '' })).status, path).to.equal(200)
    expect((await gateway.request('GET', '/docs/../../package.json')).status).to.equal(404)
  })

  it('redirect / to the documentation, return the address of the documentation at /api, and compress large files', async () => {
    const home = await fetch(gateway.url, { redirect: 'manual' })
    expect([home.status, home.headers.get('location')]).to.deep.equal([302, '/docs'])
    for (const path of ['/api/v1', '/api', '/api/v1/'])
      expect((await gateway.request('GET', path, { key: '' })).body.data.documentation).to.equal('/docs')
    const bundle = '/docs/swagger-ui-bundle.js'
    const plain = await gateway.request('GET', bundle, { key: '' })
    const zipped = await gateway.request('GET', bundle, { key: '', headers: { 'accept-encoding': 'gzip' } })
    expect(zipped.headers['content-encoding']).to.equal('gzip')
    expect(Number(zipped.headers['content-length'])).to.be.lessThan(Number(plain.headers['content-length']) / 2)
    expect(zipped.headers['etag']).not.to.equal(plain.headers['etag'])
  })
})
