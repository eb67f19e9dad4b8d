import { expect } from 'chai'
import { mkdtemp, readFile, readdir, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { adminKeyFile, createAdminKey, importAdminKey } from '../../../gateway/access/bootstrap.js'
import { digestKey, isKeySecret } from '../../../gateway/access/key-secret.js'
import { keyNames, readAllKeys } from '../../../gateway/access/key-store.js'
import { Store } from '../../../gateway/store/store.js'
import { startTestRedis, type TestRedis } from '../../support/gateway/redis.js'
import { startTestGateway } from '../../support/gateway/test-gateway.js'

describe('the first admin key', () => {
  let redis: TestRedis
  let stateDir: string
  let store: Store
  beforeEach(async () => {
    redis = await startTestRedis()
    store = await redis.openStore()
    stateDir = await mkdtemp(join(tmpdir(), 'btest-init-'))
  })
  afterEach(async () => {
    await redis.stop()
    await rm(stateDir, { recursive: true })
  })

  const keyFile = () => join(stateDir, 'etc', 'admin.key')
  const readKeys = async (of = store) => [...(await readAllKeys(of.client, keyNames(of))).values()]

  it('is readable only by its owner, and the state directory contains only its digest', async () => {
    await createAdminKey(stateDir, keyFile())
    const key = (await readFile(keyFile(), 'utf8')).trim()
    expect(isKeySecret(key)).to.equal(true)
    for (const file of [keyFile(), adminKeyFile(stateDir)])
      expect(((await stat(file)).mode & 0o777).toString(8)).to.equal('600')
    const record = await readFile(adminKeyFile(stateDir), 'utf8')
    expect(record).to.contain(digestKey(key)).and.not.to.contain(key.slice(15))
  })

  it('is imported only once, even if many gateways start at the same time', async () => {
    await createAdminKey(stateDir, keyFile())
    const other = await redis.openStore()
    await Promise.all(Array.from({ length: 20 }, (_, i) => importAdminKey(i % 2 ? store : other, stateDir)))
    const keys = await readKeys()
    expect(keys.map(({ name, scopes, disabled, parentId }) => ({ name, scopes, disabled, parentId }))).to.deep.equal([
      { name: 'admin', scopes: ['*'], disabled: false, parentId: 0 },
    ])
  })

  it('is not imported if its file is missing, and causes an error if the file has no valid key', async () => {
    await importAdminKey(store, stateDir)
    expect(await readKeys()).to.deep.equal([])
    await writeFile(adminKeyFile(stateDir), '{"id":"x","digest":"none"}')
    const failure = await importAdminKey(store, stateDir).then(() => '', String)
    expect(failure).to.contain('does not contain a valid admin key')
  })

  it('is imported again if the store has lost its data, but not if an administrator has deleted the key', async () => {
    await createAdminKey(stateDir, keyFile())
    await importAdminKey(store, stateDir)
    const empty = await redis.openStore('another:')
    await importAdminKey(empty, stateDir)
    expect(await readKeys(empty)).to.have.length(1)
    const [record] = await readKeys(empty)
    await empty.client.del([keyNames(empty).record(record!.id), keyNames(empty).digest(record!.digest)])
    await importAdminKey(empty, stateDir)
    expect(await readKeys(empty)).to.deep.equal([])
    expect(await readdir(stateDir)).not.to.include('admin-key.json')
    await importAdminKey(await redis.openStore('third:'), stateDir)
    expect(await readKeys(await redis.openStore('third:'))).to.deep.equal([])
  })

  it('stays valid when another admin key is created and imported', async () => {
    for (let i = 0; i < 2; i++) {
      await createAdminKey(stateDir, keyFile())
      await importAdminKey(store, stateDir)
    }
    expect(await readKeys()).to.have.length(2)
  })

  it('is rejected after it was deleted over HTTP', async () => {
    const gateway = await startTestGateway()
    try {
      const heir = await gateway.makeKey({ scopes: ['*'] })
      expect((await gateway.request('DELETE', '/api-keys/1', { key: heir })).status).to.equal(200)
      expect((await gateway.request('GET', '/api-keys')).status).to.equal(401)
    } finally {
      await gateway.close()
    }
  })
})
