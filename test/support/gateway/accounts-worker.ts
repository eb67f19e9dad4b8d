import { createAccounts } from '../../../gateway/accounts/accounts.js'
import { defaultLoginRetention } from '../../../gateway/accounts/login-log.js'
import { RedisProcess } from '../../../gateway/store/redis-process.js'
import { Store } from '../../../gateway/store/store.js'
import { silentLog } from './redis.js'

/*
 * A gateway's accounts as a process that a test can kill. It creates, logs in, disables and removes administrators,
 * four at a time, and reports each change after it is acknowledged. Argument: its state directory.
 */

/** The last reported state of an account. If a kill occurs before a report, a later state may be stored already. */
export interface AcknowledgedAccount {
  readonly id: number
  readonly username: string
  readonly token: string
  readonly state: 'made' | 'logged in' | 'logged out' | 'disabled' | 'removed'
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
const { accounts, admins, sessions } = createAccounts({
  store,
  log: silentLog,
  secret: Buffer.alloc(32),
  retention: defaultLoginRetention,
})
store.start()
for (let lane = 0; lane < 4; lane++) void live(lane)

async function live(lane: number): Promise<void> {
  for (let n = 0; ; n++) {
    try {
      await liveOne(`w${process.pid}-${lane}-${n}`, n % 5)
    } catch {
      await new Promise((resolve) => setTimeout(resolve, 20)) // the store is down
    }
  }
}

/** @param end the last step: 0 creation, 1 login, 2 logout, 3 disabling, 4 removal */
async function liveOne(username: string, end: number): Promise<void> {
  const { id } = await accounts.create('admin', (newId) => ({
    kind: 'admin',
    id: newId,
    username,
    passwordHash: 'x',
    disabled: false,
    generation: 1,
    createdAtMs: 1,
  }))
  let token = ''
  const report = (state: AcknowledgedAccount['state']) => process.send?.({ id, username, token, state })
  report('made')
  if (end === 0) return
  const account = await accounts.find(id)
  if (!account) throw new Error(`account ${id} does not exist`)
  const session = await sessions.begin(account, { address: '192.0.2.1', userAgent: 'x' }, false)
  token = session.token
  report('logged in')
  if (end === 2) await sessions.endAll(id, [session.digest]).then(() => report('logged out'))
  if (end === 3) await admins.update(id, { disabled: true }).then(() => report('disabled'))
  if (end === 4) await admins.remove(id).then(() => report('removed'))
}
