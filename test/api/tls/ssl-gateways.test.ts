import Koa from 'koa'
import { expect } from 'chai'
import { createServer } from 'node:net'
import { Store } from '../../../gateway/store/store.js'
import { handshakeWith } from '../../../gateway/tls/handshake.js'
import { Tls, type TlsOptions } from '../../../gateway/tls/tls.js'
import type { WantedTls } from '../../../gateway/tls/plan-change.js'
import { AcmeProxy } from '../../support/gateway/acme-proxy.js'
import { Pebble } from '../../support/gateway/pebble.js'
import { freePort } from '../../support/ports.js'
import { refusal } from '../../support/refusal.js'
import { silentLog, startTestRedis, type TestRedis } from '../../support/gateway/redis.js'
import { shownCertificate } from '../../support/gateway/tls-client.js'
import { TestAuthority, type LeafOptions } from '../../support/gateway/tls-material.js'
import { waitFor } from '../../support/wait.js'
import { deadlineOf } from '../../support/promised-time.js'

const name = 'panel.example'
const secret = Buffer.alloc(32, 7)
const nothing: WantedTls = {
  enabled: undefined,
  mode: undefined,
  target: name,
  email: undefined,
  certPem: undefined,
  keyPem: undefined,
}

describe('TLS of several gateways', () => {
  let redis: TestRedis
  let authority: TestAuthority
  let prefix: string
  let count = 0
  const opened: { tls: Tls; store: Store }[] = []
  before(async () => {
    redis = await startTestRedis()
    authority = await TestAuthority.create()
  })
  after(() => redis.stop())
  beforeEach(() => (prefix = `btest${++count}:`))
  afterEach(async () => {
    for (const { tls, store } of opened.splice(0)) {
      await tls.close()
      await store.close()
    }
  })

  const upgrades = { matches: () => false, answer: () => Promise.resolve() }
  async function open(options: Partial<TlsOptions> = {}): Promise<Tls> {
    const store = new Store({ url: redis.url, prefix, log: silentLog })
    const tls = new Tls({
      store,
      secret,
      log: silentLog,
      httpListen: undefined,
      plainIsPublic: false,
      listen: { host: '127.0.0.1', port: await freePort() },
      acme: { directory: 'https://127.0.0.1:9/', caPem: '' },
      roots: [authority.rootPem],
      ...options,
    })
    opened.push({ tls, store })
    store.start()
    await waitFor(() => tls.documents.settings.value !== undefined && tls.documents.accounts.value !== undefined)
    await tls.start({ app: new Koa(), upgrades })
    return tls
  }
  const change = (tls: Tls, wanted: Partial<WantedTls>) => tls.change({ ...nothing, ...wanted }, name)
  const upload = async (tls: Tls) => {
    const settings = await change(tls, { mode: 'uploaded', ...(await authority.issue(name)) })
    return settings.current!.fingerprint
  }
  const shown = async (tls: Tls): Promise<string> =>
    (await shownCertificate(await waitFor(() => tls.address))).fingerprint256

  it('changes at all gateways immediately, and also applies at a gateway that is added later', async () => {
    const [one, two] = [await open(), await open()]
    for (const tls of [one, two]) {
      const wanted = await upload(tls)
      for (const other of [one, two])
        await waitFor(async () => (await shown(other)) === wanted, {
          timeoutMs: deadlineOf(2000),
          what: 'the same',
        })
    }
    const wanted = one.documents.settings.value!.current!.fingerprint
    expect(await shown(await open())).to.equal(wanted)
    await change(two, { enabled: false })
    await waitFor(() => one.address === undefined, { timeoutMs: deadlineOf(2000), what: 'off' })
  })

  it('is changed by only one of several concurrent requests', async () => {
    const [one, two] = [await open(), await open()]
    await upload(one)
    await waitFor(() => two.documents.settings.value?.enabled)
    const results = await Promise.allSettled([one, two, one, two].map((tls) => upload(tls)))
    const lost = results.flatMap((result) => (result.status === 'rejected' ? [result.reason as { code: string }] : []))
    expect(lost.length).to.equal(3)
    for (const { code } of lost) expect(code).to.equal('ssl_changed')
    const wanted = one.documents.settings.value!.current!.fingerprint
    for (const tls of [one, two]) await waitFor(async () => (await shown(tls)) === wanted)
  })

  it('causes a warning at a gateway whose HTTPS port is in use, and starts there when the port is free', async () => {
    const port = await freePort()
    const taken = createServer()
    await new Promise<void>((done) => taken.listen(port, '127.0.0.1', done))
    const pauses = { firstMs: 1000, lastMs: 1000 }
    const two = await open({ listen: { host: '127.0.0.1', port }, timing: { checkEveryMs: 50, pauses } })
    const wanted = await upload(await open())
    await waitFor(() => /in use/.test(String(two.warnings)), { what: 'a warning' })
    await new Promise<void>((done) => void taken.close(() => done()))
    await waitFor(async () => two.address !== undefined && (await shown(two)) === wanted)
    expect(two.warnings).to.deep.equal([])
  })

  it('keeps the previous settings if the HTTPS port does not present the new certificate', async () => {
    let isBroken = false
    const tls = await open({
      probe: async (...asked) => {
        const seen = await handshakeWith(...asked)
        return isBroken ? { ...seen, fingerprint: 'another' } : seen
      },
    })
    const former = await upload(tls)
    isBroken = true
    expect(await refusal(upload(tls))).to.match(/^ssl_probe_failed: .*earlier settings/)
    expect(tls.documents.settings.value!.current!.fingerprint).to.equal(former)
    expect(await shown(tls)).to.equal(former)
    isBroken = false
    expect(await upload(tls)).to.not.equal(former)
  })

  it('uses the previous certificate if the current certificate cannot be read', async () => {
    const tls = await open()
    const former = await upload(tls)
    await upload(tls)
    await tls.documents.settings.update((old) => ({
      ...old,
      current: { ...old.current!, sealedKey: 'x' },
      change: 'broken',
    }))
    await waitFor(async () => (await shown(tls)) === former, { what: 'the former certificate' })
  })

  it('sends HSTS only if it cannot lock out browsers, and never for longer than the certificate is valid', async () => {
    const dayMs = 86_400_000
    const of = async (tls: Tls, target: string, more: LeafOptions = {}): Promise<string | undefined> => {
      const { certPem, keyPem } = await authority.issue(target, more)
      // The root is included, because the gateway requires a complete chain and does not know the CA of this test.
      await change(tls, { mode: 'uploaded', target, certPem: certPem + authority.rootPem, keyPem })
      return tls.hsts
    }
    const tls = await open()
    expect(tls.hsts, 'off').to.equal(undefined)
    expect(await of(tls, name), 'trusted').to.equal('max-age=86400')
    expect(await of(tls, '192.0.2.7'), 'an address').to.equal(undefined)
    const soon = await of(tls, name, { notAfterMs: Date.now() + dayMs / 2 })
    expect(Number(soon?.slice('max-age='.length)), 'one that ends soon').to.be.within(1, dayMs / 2000)
    await change(tls, { mode: 'self_signed' })
    expect(tls.hsts, 'self-signed').to.equal(undefined)
    expect(await of(await open({ roots: [] }), name), 'one of an unknown authority').to.equal(undefined)
    expect(await of(await open({ plainIsPublic: true }), name), 'listen is public').to.equal(undefined)
  })

  it('redirects from port 80 of a gateway only while its HTTPS port works', async () => {
    const [port, httpPort] = [await freePort(), await freePort()]
    const ask = (): Promise<number> =>
      fetch(`http://127.0.0.1:${httpPort}/`, { redirect: 'manual' }).then(
        ({ status }) => status,
        () => 0,
      )
    const taken = createServer()
    await new Promise<void>((done) => taken.listen(port, '127.0.0.1', done))
    const pauses = { firstMs: 1000, lastMs: 1000 }
    const two = await open({
      listen: { host: '127.0.0.1', port },
      httpListen: { host: '127.0.0.1', port: httpPort },
      timing: { checkEveryMs: 50, pauses },
    })
    expect(await ask(), 'off').to.equal(0)
    const one = await open()
    await upload(one)
    await waitFor(async () => (await ask()) === 404, { what: 'it does not redirect' })
    await new Promise<void>((done) => void taken.close(() => done()))
    await waitFor(async () => (await ask()) === 308, { what: 'it redirects to TLS' })
    expect(two.address?.port).to.equal(port)
    await change(one, { enabled: false })
    await waitFor(async () => (await ask()) === 0, { what: 'off again' })
  })

  it('renews a certificate only once for all gateways', async () => {
    const ports = { http: await freePort(), tls: await freePort() }
    // By default, Pebble refuses one nonce in twenty. The repeated request would then count as a second order.
    const env = { PEBBLE_WFE_NONCEREJECT: '0' }
    const pebble = await Pebble.start({ httpPort: ports.http, tlsPort: ports.tls, env })
    const proxy = await AcmeProxy.start(pebble.port)
    try {
      const pauses = { firstMs: 1000, lastMs: 1000 }
      const common = {
        acme: { directory: proxy.url, caPem: proxy.caPem },
        timing: { checkEveryMs: 20, pauses },
      }
      const one = await open({ ...common, httpListen: { host: '127.0.0.1', port: ports.http } })
      const others = await Promise.all(
        [await freePort(), await freePort()].map((port) =>
          open({ ...common, httpListen: { host: '127.0.0.1', port } }),
        ),
      )
      await change(one, { mode: 'letsencrypt' })
      const orders = (): number => proxy.asked.filter((path) => path === '/order-plz').length
      const begun = orders()
      const dayMs = 86_400_000
      const { certPem, keyPem } = await authority.issue(name, {
        notBeforeMs: Date.now() - 80 * dayMs,
        notAfterMs: Date.now() + 10 * dayMs,
      })
      const old = one.documents.sealed(
        { chainPem: certPem, keyPem },
        { mode: 'letsencrypt', target: name, trusted: false },
      )
      await one.documents.settings.update((settings) => ({ ...settings, current: old, change: 'aged' }))
      const renewed = (tls: Tls): boolean =>
        ![undefined, old.fingerprint].includes(tls.documents.settings.value?.current?.fingerprint)
      for (const tls of [one, ...others]) {
        await waitFor(() => renewed(tls), { what: 'renewed' })
        const wanted = one.documents.settings.value!.current!.fingerprint
        await waitFor(async () => (await shown(tls)) === wanted, { what: 'shown' })
      }
      expect(orders() - begun).to.equal(1)
      expect(others.map((tls) => tls.documents.settings.value!.change)).to.deep.equal([
        one.documents.settings.value!.change,
        one.documents.settings.value!.change,
      ])
    } finally {
      await proxy.close()
      await pebble.stop()
    }
  })

  it('answers an ACME challenge at each gateway, no matter which gateway requested the certificate', async () => {
    const ports = { http: await freePort(), tls: await freePort() }
    const pebble = await Pebble.start({ httpPort: ports.http, tlsPort: ports.tls })
    try {
      const acme = { directory: pebble.url, caPem: pebble.caPem }
      const asked = await open({ acme, httpListen: { host: '127.0.0.1', port: await freePort() } })
      const reached = await open({ acme, httpListen: { host: '127.0.0.1', port: ports.http } })
      const { current } = await change(asked, { mode: 'letsencrypt' })
      await waitFor(async () => (await shown(reached)) === current!.fingerprint)
    } finally {
      await pebble.stop()
    }
  })
})
