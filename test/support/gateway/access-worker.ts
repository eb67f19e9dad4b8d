import { createAccess, noLimits } from '../../../gateway/callers.js'
import { RedisProcess } from '../../../gateway/store/redis-process.js'
import { Store } from '../../../gateway/store/store.js'
import { silentLog } from './redis.js'
import { administratorOf } from './administrator.js'

/*
 * A gateway's store and access control as a process that a test can kill. It creates API keys with audit entries, eight
 * at a time, and reports each key after it is acknowledged. Argument: its state directory, which contains an admin key.
 */

export interface AcknowledgedKey {
  readonly id: number
  readonly key: string
  readonly auditId: string
}

const [, , stateDir = ''] = process.argv
const redis = new RedisProcess({
  program: '/usr/bin/redis-server',
  stateDir,
  runDir: `${stateDir}/run`,
  log: silentLog,
})
await redis.start()
const store = new Store({ url: redis.url, prefix: 'btest:', log: silentLog })
const access = createAccess({
  store,
  secret: Buffer.alloc(32),
  stateDir,
  auditKeep: 1_000_000,
  limits: noLimits,
  log: silentLog,
})
store.start()
access.start()
for (let i = 0; i < 8; i++) void makeKeys(i)

async function makeKeys(worker: number): Promise<void> {
  for (let n = 0; ; n++) {
    try {
      process.send?.(await makeKey(`${worker}-${n}`))
    } catch {
      await new Promise((resolve) => setTimeout(resolve, 20)) // the store is down, or the admin key does not exist yet
    }
  }
}

async function makeKey(name: string): Promise<AcknowledgedKey> {
  const caller = administratorOf(1)
  const entry = await access.audit.begin({
    action: 'apikey.create',
    caller,
    address: '127.0.0.1',
    requestId: 'r',
    target: name,
  })
  const { record, key } = await access.keys.create(1, { name, scopes: ['swap:read'] })
  await access.audit.finish(entry, { success: true, target: name, detail: String(record.id) })
  return { id: record.id, key, auditId: entry.id }
}
