import { createPrivateKey } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { expect } from 'chai'
import { pino } from 'pino'
import { Pebble } from '../../support/gateway/pebble.js'
import { freePort } from '../../support/ports.js'
import { startTestGateway, type TestGateway } from '../../support/gateway/test-gateway.js'
import { encrypted, TestAuthority } from '../../support/gateway/tls-material.js'

const name = 'panel.example'

/** Forms in which a private key could be written: its private value `d` in several encodings, and lines of the PEM. */
function formsOf(pem: string): string[] {
  const key = createPrivateKey(pem)
  const { d = '' } = key.export({ format: 'jwk' })
  const raw = Buffer.from(d, 'base64url')
  const lines = pem.split('\n').filter((line) => line.length > 40 && !line.startsWith('-'))
  return [d, raw.toString('base64'), raw.toString('hex'), raw.toString('latin1'), ...lines.slice(1)]
}

/** The arguments and the environment of all processes that the process of the test may read. */
function processTexts(): string {
  const read = (path: string): string => {
    try {
      return readFileSync(path, 'latin1')
    } catch {
      return '' // the process has ended, or another user owns it
    }
  }
  const pids = readdirSync('/proc').filter((entry) => /^\d+$/.test(entry))
  return pids.map((pid) => read(`/proc/${pid}/cmdline`) + read(`/proc/${pid}/environ`)).join('\n')
}

describe('private keys of TLS', () => {
  let pebble: Pebble
  let gateway: TestGateway
  const written: string[] = []
  const answers: string[] = []
  const keys = new Map<string, string>()
  const ports = { http: 0, tls: 0 }
  before(async () => {
    Object.assign(ports, { http: await freePort(), tls: await freePort() })
    pebble = await Pebble.start({ httpPort: ports.http, tlsPort: ports.tls })
    gateway = await startTestGateway({
      log: pino({ level: 'trace' }, { write: (line: string) => void written.push(line) }),
      tls: {
        listen: { host: '127.0.0.1', port: ports.tls },
        httpListen: { host: '127.0.0.1', port: ports.http },
        acme: { directory: pebble.url, caPem: pebble.caPem },
      },
    })
  })
  after(async () => {
    await gateway.close()
    await pebble.stop()
  })

  async function put(status: number, body: object): Promise<void> {
    const reply = await gateway.request('PUT', '/ssl', { body })
    expect(reply.status, reply.text).to.equal(status)
    answers.push(reply.text)
    const { settings } = gateway.tls.documents
    if (status === 200) keys.set(String(keys.size), gateway.tls.documents.opened(settings.value!.current!).keyPem)
  }

  it('do not appear in answers, logs, audit entries and processes, or in plain text in Redis', async () => {
    const authority = await TestAuthority.create()
    const { certPem, keyPem } = await authority.issue(name)
    const [other, ended] = [
      await authority.issue('other.example'),
      await authority.issue(name, { notBeforeMs: 0, notAfterMs: 1e12 }),
    ]
    const given = {
      mode: 'uploaded',
      target: name,
      cert_pem: `${certPem}${authority.rootPem}`,
      key_pem: keyPem,
    }
    await put(200, { mode: 'self_signed', target: name })
    await put(200, given)
    await put(400, { ...given, key_pem: other.keyPem })
    await put(400, { ...given, cert_pem: ended.certPem, key_pem: ended.keyPem })
    await put(400, { ...given, key_pem: encrypted(keyPem) })
    await put(400, { ...given, cert_pem: keyPem })
    await put(400, { ...given, key_pem: keyPem.slice(0, -60) })
    await put(400, { ...given, key_pem: { pem: keyPem } })
    await put(400, { ...given, target: keyPem })
    await put(400, { ...given, email: keyPem.slice(28, 90) })
    await put(200, { mode: 'letsencrypt', target: name })
    const account = await gateway.tls.documents.accountKey(pebble.url, () => expect.fail('there is one'))
    for (const [index, pem] of [other.keyPem, ended.keyPem, account].entries()) keys.set(`more ${index}`, pem)
    for (const path of ['/ssl', '/audit-logs?per_page=200', '/metrics'])
      answers.push((await gateway.request('GET', path)).text)

    const places = {
      answers: answers.join('\n'),
      log: written.join('\n'),
      store: await gateway.redis.readAof(),
      processes: processTexts(),
    }
    expect(places.store).to.contain('tls:settings')
    expect(places.log).to.contain('/ssl')
    expect(keys.size).to.equal(6)
    for (const [place, text] of Object.entries(places)) {
      expect(text.includes('PRIVATE KEY'), `a key in ${place}`).to.equal(false)
      for (const pem of keys.values())
        for (const form of formsOf(pem)) expect(text.includes(form), `${form.slice(0, 9)}… in ${place}`).to.equal(false)
    }
  })
})
