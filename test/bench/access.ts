import { randomBytes } from 'node:crypto'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { createClient } from 'redis'
import { createAccess, noLimits } from '../../gateway/callers.js'
import { createAdminKey } from '../../gateway/access/bootstrap.js'
import { Store } from '../../gateway/store/store.js'
import { silentLog, startTestRedis } from '../support/gateway/redis.js'
import { waitFor } from '../support/wait.js'
import { administratorOf } from '../support/gateway/administrator.js'

/* Measures the cost of access control: `scripts/bench --only access`. Each figure is the median of five rounds. */

const redis = await startTestRedis()
await createAdminKey(redis.stateDir, join(redis.stateDir, 'admin.key'))
const store = new Store({ url: redis.url, prefix: 'btest:', log: silentLog })
const access = createAccess({
  store,
  secret: randomBytes(32),
  stateDir: redis.stateDir,
  auditKeep: 100_000,
  limits: noLimits,
  log: silentLog,
})
store.start()
access.start()
await waitFor(() => store.ready())
await waitFor(() => access.keys.create(1, { name: 'probe' }).catch(() => undefined))
const caller = administratorOf(1)

async function measure(name: string, count: number, unit: 'µs each' | 'per s', run: (count: number) => Promise<void>) {
  const rounds: number[] = []
  for (let round = 0; round < 5; round++) {
    const begun = performance.now()
    await run(count)
    const ms = performance.now() - begun
    rounds.push(unit === 'per s' ? (count / ms) * 1000 : (ms / count) * 1000)
  }
  const median = rounds.toSorted((a, b) => a - b)[2] ?? 0
  console.log(`${name.padEnd(62)} ${median.toFixed(median < 100 ? 1 : 0).padStart(8)} ${unit}`)
}

const parallel = async (count: number, width: number, act: (i: number) => Promise<unknown>): Promise<void> => {
  let next = 0
  const lane = async () => {
    while (next < count) await act(next++)
  }
  await Promise.all(Array.from({ length: width }, lane))
}

const plain = await access.keys.create(1, { name: 'plain' })
const bound = await access.keys.create(1, {
  name: 'bound',
  addresses: ['10.0.0.0/8', '127.0.0.0/8', '2001:db8::/32'],
})
for (const [name, { key }] of [
  ['authenticate, cached', plain],
  ['authenticate, cached, three allowed networks', bound],
] as const)
  await measure(name, 50_000, 'µs each', async (count) => {
    const headers = { 'x-api-key': key }
    for (let i = 0; i < count; i++) await access.authenticator.authenticate({ headers }, '127.0.0.1')
  })

const cached = createClient({ url: redis.url, RESP: 3, clientSideCache: { ttl: 0, maxEntries: 1000 } })
cached.on('error', () => undefined)
await cached.connect()
await measure("the same look-up through node-redis' clientSideCache (2 GET)", 20_000, 'µs each', async (count) => {
  for (let i = 0; i < count; i++) {
    await cached.get('btest:apikey-digest:x')
    await cached.get('btest:apikey:2')
  }
})
cached.destroy()
await measure('the same look-up in Redis (2 GET)', 2000, 'µs each', async (count) => {
  for (let i = 0; i < count; i++) {
    await store.client.get('btest:apikey-digest:x')
    await store.client.get('btest:apikey:2')
  }
})

await measure('audit entry, begin and finish, one at a time', 200, 'per s', (count) => parallel(count, 1, audit))
await measure('audit entry, begin and finish, 32 at a time', 3000, 'per s', (count) => parallel(count, 32, audit))
await measure('create a key, one at a time', 100, 'per s', (count) => parallel(count, 1, makeKey))
await measure('create a key, 32 at a time', 500, 'per s', (count) => parallel(count, 32, makeKey))
await parallel(100_000 - 16_000, 500, audit)
await measure('read a page of 100 of 100,000 audit entries', 5, 'µs each', (count) =>
  parallel(count, 1, () => access.audit.read({ guests: 'all' }, { page: 1, size: 100 })),
)
await measure('filter 100,000 audit entries', 1, 'µs each', (count) =>
  parallel(count, 1, () => access.audit.read({ guests: 'all', target: 'none' }, { page: 1, size: 100 })),
)

await compareLogins()

/** Logs in with wrong passwords, alternately for an existing and an unknown name. The times should not differ. */
async function compareLogins(count = 400): Promise<void> {
  const { admins, logins } = access.accounts
  await admins.create('known', 'correct horse battery')
  const times = { known: [] as number[], unknown: [] as number[] }
  for (let i = 0; i < count; i++)
    for (const username of ['known', 'unknown'] as const) {
      const place = { address: `10.0.${i >> 8}.${i & 255}`, userAgent: 'bench', deviceCookie: undefined }
      const begun = performance.now()
      await logins.login({ username, password: 'wrong', keep: false }, place).catch(() => undefined)
      times[username].push(performance.now() - begun)
    }
  for (const [username, list] of Object.entries(times)) {
    const [p25, p50, p75] = [0.25, 0.5, 0.75].map((part) => list.toSorted((a, b) => a - b)[count * part] ?? 0)
    const text = [p25, p50, p75].map((ms) => (ms ?? 0).toFixed(2)).join(' / ')
    console.log(`wrong password, ${username} name: p25 / p50 / p75 in ms`.padEnd(62), text)
  }
}

async function audit(): Promise<void> {
  const entry = await access.audit.begin({
    action: 'container.stop',
    caller,
    address: '127.0.0.1',
    requestId: 'r',
    target: 'web-1',
  })
  await access.audit.finish(entry, { success: true, target: 'web-1', detail: 'id 1, task 2' })
}

async function makeKey(i: number): Promise<void> {
  await access.keys.create(1, { name: `key-${i}` })
}

await access.close()
await store.close()
await redis.stop()
await rm(redis.stateDir, { recursive: true, force: true })
