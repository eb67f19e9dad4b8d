import { randomBytes } from 'node:crypto'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { createAccess, noLimits, type Access } from '../../gateway/callers.js'
import { AccessPolicies } from '../../gateway/policy/access-policy.js'
import { Store } from '../../gateway/store/store.js'
import { silentLog, startTestRedis, type TestRedis } from '../support/gateway/redis.js'
import { waitFor } from '../support/wait.js'
import { figure, median, timed, type Figure } from './figures.js'

const rounds = 100
const patienceMs = 10_000

/** The parts of a gateway that cache the rights of callers. The benchmark runs two gateways on one store. */
interface Gateway {
  readonly store: Store
  readonly access: Access
  readonly policies: AccessPolicies
}

/** Measures the delay until a change at one gateway takes effect at another gateway. The product promises 2 s. */
export async function benchReach(): Promise<Figure[]> {
  const redis = await startTestRedis()
  const secret = randomBytes(32)
  const gateways = [open(redis, secret), open(redis, secret)] as const
  try {
    for (const { policies } of gateways) await waitFor(() => isKnown(policies), { what: 'the policy' })
    return [
      ...(await figuresOf('access policy in force at another gateway', () => policyReaches(gateways))),
      ...(await figuresOf('ended session rejected at another gateway', () => endReaches(gateways))),
    ]
  } finally {
    for (const { access, store } of gateways) {
      await access.close()
      await store.close()
    }
    await redis.stop()
  }
}

async function figuresOf(name: string, once: () => Promise<number>): Promise<Figure[]> {
  const times: number[] = []
  for (let round = 0; round < rounds; round++) times.push(await once())
  return [
    figure(`${name}: median`, 'ms', { Berth: median(times) }),
    figure(`${name}: slowest of ${rounds}`, 'ms', { Berth: Math.max(...times) }),
  ]
}

function open(redis: TestRedis, secret: Buffer): Gateway {
  const store = new Store({ url: redis.url, prefix: 'btest:', log: silentLog })
  const policies = new AccessPolicies({ store, trustedProxies: [], log: silentLog })
  const { stateDir } = redis
  const access = createAccess({ store, secret, stateDir, auditKeep: 1000, limits: noLimits, log: silentLog })
  store.start()
  access.start()
  return { store, access, policies }
}

function isKnown(policies: AccessPolicies): boolean {
  try {
    return policies.policy !== undefined
  } catch {
    return false // the policy has not been read from the store yet
  }
}

const caller = { peer: '192.0.2.5', headers: {} }
let isOut = false

async function policyReaches([one, other]: readonly [Gateway, Gateway]): Promise<number> {
  isOut = !isOut
  const allowedSources = isOut ? ['198.51.100.0/24'] : ['192.0.2.0/24']
  return timed(async () => {
    const administrator = { peer: '127.0.0.1', headers: { host: 'localhost' } }
    await one.policies.change({ enabled: true, allowedSources }, administrator)
    await until(() => other.policies.judge(caller).allowed === !isOut)
  })
}

async function endReaches([one, other]: readonly [Gateway, Gateway]): Promise<number> {
  const { accounts, sessions } = one.access.accounts
  const account = (await accounts.findByName('someone')) ?? (await someone(one))
  const { token, digest } = await sessions.begin(account, { address: '192.0.2.5', userAgent: 'bench' }, false)
  const headers = { cookie: `berth=${token}` }
  const isIn = (): Promise<boolean> =>
    other.access.authenticator.authenticate({ headers, method: 'GET' }, '192.0.2.5').then(
      () => true,
      () => false,
    )
  await until(isIn)
  return timed(async () => {
    await sessions.endAll(account.id, [digest])
    await until(async () => !(await isIn()))
  })
}

function someone({ access }: Gateway) {
  return access.accounts.accounts.create('admin', (id) => ({
    ...({ kind: 'admin', id, username: 'someone', passwordHash: '', disabled: false } as const),
    generation: 1,
    createdAtMs: 1,
  }))
}

async function until(check: () => boolean | Promise<boolean>): Promise<void> {
  const deadline = performance.now() + patienceMs
  while (!(await check())) {
    if (performance.now() > deadline) throw new Error(`not within ${patienceMs} ms`)
    await nextTurn()
  }
}
