import { expect } from 'chai'
import { fork, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { moduleUrl, nodeOptions } from '../../support/programs.js'
import { killUnder } from '../../support/gateway/redis.js'
import { startTestGateway, type TestGateway } from '../../support/gateway/test-gateway.js'
import { waitFor } from '../../support/wait.js'
import { deadlineOf } from '../../support/promised-time.js'

/** Starts the access control of a second gateway, as a separate process with the same Redis. */
async function startOther(
  gateway: TestGateway,
): Promise<{ child: ChildProcess; admits: (key: string) => Promise<string> }> {
  const program = join(gateway.redis.stateDir, 'other.mjs')
  const from = (path: string) => JSON.stringify(moduleUrl(`gateway/${path}`))
  await writeFile(
    program,
    `import { createAccess, noLimits } from ${from('callers.ts')}
     import { Store } from ${from('store/store.ts')}
     const log = { info() {}, debug() {}, warn() {}, error() {} }
     const store = new Store({ url: ${JSON.stringify(gateway.redis.url)}, prefix: 'btest:', log })
     const access = createAccess({ store, secret: Buffer.alloc(32), stateDir: '/nonexistent', auditKeep: 100, log, limits: noLimits })
     store.on('up', () => process.send?.('up'))
     store.start()
     access.start()
     process.on('message', (key) => {
       access.authenticator.authenticate({ headers: { 'x-api-key': key } }, '127.0.0.1').then(
         () => process.send?.('admitted'),
         (error) => process.send?.(error.code),
       )
     })`,
  )
  const child = fork(program, { execArgv: [...nodeOptions] })
  await once(child, 'message')
  const admits = async (key: string) => {
    child.send(key)
    return ((await once(child, 'message')) as [string])[0]
  }
  return { child, admits }
}

describe('authentication', () => {
  let gateway: TestGateway
  before(async () => {
    gateway = await startTestGateway()
  })
  after(() => gateway.close())

  const admits = async (key: string): Promise<string> =>
    gateway.access.authenticator.authenticate({ headers: { 'x-api-key': key } }, '127.0.0.1').then(
      () => 'admitted',
      (error: { code: string }) => error.code,
    )

  it('rejects a revoked key immediately, even in a second gateway process (60 attempts)', async () => {
    const { child, admits: otherAdmits } = await startOther(gateway)
    try {
      for (let round = 0; round < 60; round++) {
        const { body } = await gateway.request('POST', '/api-keys', {
          body: { name: 'x', scopes: ['swap:read'] },
        })
        const { id, key } = body.data as { id: number; key: string }
        expect(await otherAdmits(key)).to.equal('admitted')
        const disabling = round % 2 === 0
        if (disabling) await gateway.request('PATCH', `/api-keys/${id}`, { body: { disabled: true } })
        else await gateway.request('DELETE', `/api-keys/${id}`)
        expect(await otherAdmits(key), `round ${round}`).to.equal(disabling ? 'key_disabled' : 'unauthorized')
      }
    } finally {
      child.kill('SIGKILL')
    }
  })

  it('applies a change of a key that happens while the key is read from the store', async () => {
    for (let round = 0; round < 40; round++) {
      const { body } = await gateway.request('POST', '/api-keys', { body: { name: 'x' } })
      const { id, key } = body.data as { id: number; key: string }
      const early = Array.from({ length: 3 }, () => admits(key))
      const changed = gateway.request('PATCH', `/api-keys/${id}`, { body: { disabled: true } })
      const during = Array.from({ length: 3 }, () => admits(key))
      await changed
      expect(await admits(key), `round ${round}`).to.equal('key_disabled')
      await Promise.all([...early, ...during])
      expect(await admits(key), `round ${round}`).to.equal('key_disabled')
    }
  })

  it('refuses all callers while the store is down, and accepts valid keys soon afterwards', async () => {
    const key = await gateway.makeKey({ scopes: ['swap:read'] })
    expect(await admits(key)).to.equal('admitted')
    await killUnder(gateway.store, gateway.redis)
    expect(await admits(key)).to.equal('store_unavailable')
    expect(await admits('berth_sk_nonsense')).to.be.oneOf(['unauthorized', 'store_unavailable'])
    await waitFor(async () => (await admits(key)) === 'admitted', { timeoutMs: deadlineOf(5000) })
  })

  it('reads a key from the store again if the gateway missed notifications while its process was paused', async () => {
    const { child, admits: otherAdmits } = await startOther(gateway)
    try {
      const { body } = await gateway.request('POST', '/api-keys', { body: { name: 'x' } })
      const { id, key } = body.data as { id: number; key: string }
      expect(await otherAdmits(key)).to.equal('admitted')
      child.kill('SIGSTOP')
      // The other gateway may use a cached key for two seconds without contacting the store. The pause below is longer.
      await gateway.request('DELETE', `/api-keys/${id}`)
      await new Promise((resolve) => setTimeout(resolve, 2500))
      const answer = otherAdmits(key)
      child.kill('SIGCONT')
      expect(await answer).to.be.oneOf(['unauthorized', 'store_unavailable'])
    } finally {
      child.kill('SIGKILL')
    }
  })

  it('writes the last use of keys to the store in batches, and at the latest at the shutdown', async () => {
    const ended = await startTestGateway()
    try {
      const { store, access } = ended
      const headers = { 'x-api-key': await ended.makeKey({ scopes: ['swap:read'] }) }
      for (let i = 0; i < 50; i++) await access.authenticator.authenticate({ headers }, '127.0.0.1')
      await access.close()
      const uses = await store.client.hGetAll(store.key('apikey-used'))
      expect(uses['2']).to.match(/^\d{13} 127\.0\.0\.1$/)
    } finally {
      await ended.close()
    }
  })

  it('answers 429 to an address that sent too many wrong keys, but still accepts its valid keys', async () => {
    const limited = await startTestGateway({
      limits: { authFailuresPerMinute: 5 },
      trustedProxies: ['127.0.0.1'],
    })
    try {
      const from = (address: string, key?: string) =>
        limited.request('GET', '/containers', {
          ...(key === undefined ? {} : { key }),
          headers: { 'x-forwarded-for': address },
        })
      for (let i = 0; i < 20; i++) expect((await from('192.0.2.1')).status).to.equal(200)
      for (let i = 0; i < 5; i++) expect((await from('192.0.2.1', 'wrong')).status).to.equal(401)
      const { status, body, headers } = await from('192.0.2.1', 'wrong')
      expect([status, body.code, headers['retry-after']]).to.deep.equal([429, 'rate_limited', '12'])
      expect((await from('192.0.2.1')).status).to.equal(200)
      expect((await from('192.0.2.2', 'wrong')).status).to.equal(401)
    } finally {
      await limited.close()
    }
  })

  it('does not cache unknown keys', async () => {
    const { createKeySecret } = await import('../../../gateway/access/key-secret.js')
    const before = gateway.access.cachedKeys()
    for (let i = 0; i < 2000; i++) expect(await admits(createKeySecret())).to.equal('unauthorized')
    expect(gateway.access.cachedKeys()).to.be.at.most(before)
  })
})
