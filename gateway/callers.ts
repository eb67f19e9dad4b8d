import type { Logger } from 'pino'
import { perMinute, RateLimit } from '../shared/rate-limit.js'
import { createAccounts, type Accounts } from './accounts/accounts.js'
import { GuestRegistry } from './fleet/placement/guest-registry.js'
import { GatewayInstance } from './store/instance.js'
import type { Store } from './store/store.js'
import { GoneContainers } from './sub-users/gone-containers.js'
import { SubUsers } from './sub-users/sub-users.js'
import { ApiKeys } from './access/api-keys.js'
import { CliLogins } from './accounts/cli-logins.js'
import { AuditStore } from './access/audit.js'
import { CallerAuthenticator } from './access/authenticate.js'
import { importAdminKey } from './access/bootstrap.js'
import type { AccessControl, StoreHealth } from './access/contract.js'
import { defaultCreationLimits, type CreationLimits } from './access/creation-limits.js'
import { CallerGrants, type Grants } from './access/grants.js'
import { FailureLog } from './access/failure-log.js'
import { IdempotencyStore } from './access/idempotency.js'
import { KeyCache } from './access/key-cache.js'
import { KeyUsage } from './access/key-usage.js'
import { RequestLimits, type RequestLimit } from './access/request-limits.js'
import { defaultRetention, Trimming, type Retention } from './retention.js'
import { authorize } from './access/scopes.js'

export interface LimitOptions {
  readonly caller: RequestLimit
  /** Limits of each source address. They apply before the caller is known. */
  readonly address: RequestLimit
  /** Maximum number of failed authentications of a source address per minute. */
  readonly authFailuresPerMinute: number
  /** Maximum numbers of API keys and sub-users. */
  readonly creation?: CreationLimits
}

/** No limits, for tests and benchmarks. */
export const noLimits: LimitOptions = {
  caller: { perSecond: 0, atOnce: 0 },
  address: { perSecond: 0, atOnce: 0 },
  authFailuresPerMinute: 1_000_000_000,
}

export interface AccessOptions {
  /** The store. Start it only after the access control was created. Otherwise, the cache would miss changes. */
  store: Store
  /** 32 secret bytes from `readOrCreateKey`, the same in all gateways on one store. */
  secret: Buffer
  /** Directory in which `createAdminKey` has stored the digest of the first key. */
  stateDir: string
  /** Number of audit entries that are retained. */
  auditKeep: number
  readonly retention?: Retention
  log: Logger
  readonly limits: LimitOptions
}

export interface Access extends AccessControl {
  readonly audit: AuditStore
  readonly keys: ApiKeys
  readonly cliLogins: CliLogins
  readonly grants: Grants
  readonly accounts: Accounts
  readonly subUsers: SubUsers
  readonly health: StoreHealth
  cachedKeys(): number
  /** Starts access control. Call it after `store.start()`. */
  start(): void
  /** Ends access control. Call it before `store.close()`. */
  close(): Promise<void>
}

export function createAccess(options: AccessOptions): Access {
  const { store, secret, stateDir, auditKeep, retention = defaultRetention, limits, log } = options
  const { creation = defaultCreationLimits } = limits
  const limit = new RateLimit(perMinute(limits.authFailuresPerMinute))
  const cache = new KeyCache(store)
  const usage = new KeyUsage(store)
  const instance = new GatewayInstance(store)
  const keys = new ApiKeys({ store, cache, usage, secret, limit: creation.apiKeys })
  const importKey = () =>
    importAdminKey(store, stateDir).catch((err: unknown) => log.error({ err }, 'could not import the admin key'))
  keys.onRemoved(importKey)
  // The event also occurs when the store was emptied. In this case, `importKey` imports the administrator's key again.
  store.onInvalidate(store.key('admin-key', ''), () => void importKey())
  const failures = new FailureLog(log)
  const audit = new AuditStore(store, auditKeep, log)
  const accounts = createAccounts({ store, secret, log, retention: retention.logins })
  const { callers: sessions } = accounts
  const subUsers = new SubUsers({ store, secret, ...accounts, limit: creation.subUsers })
  const goneContainers = new GoneContainers({ registry: new GuestRegistry(store), subUsers, log })
  const idempotency = new IdempotencyStore(store, instance, secret, retention.repeatHours)
  const trims = [
    () => audit.trim(retention.auditDays),
    () => idempotency.trim(retention.repeats),
    () => accounts.loginLog.trim(),
  ]
  const trimming = new Trimming(store, trims, log)
  return {
    authenticator: new CallerAuthenticator({ store, cache, usage, sessions, failures, limit }),
    authorize,
    callers: new RequestLimits(limits.caller, 'this caller', log),
    addresses: new RequestLimits(limits.address, 'this address', log),
    audit,
    idempotency,
    shared: { current: () => store.current(), visibleEverywhere: () => store.visibility.everywhere() },
    keys,
    cliLogins: new CliLogins(store, keys),
    grants: new CallerGrants(cache, sessions),
    accounts,
    subUsers,
    health: { ping: () => store.ping(), reason: () => store.reason() },
    cachedKeys: () => cache.size,
    start: () => {
      store.on('up', () => void importKey())
      if (store.ready()) void importKey()
      instance.start()
      trimming.start()
    },
    close: async () => {
      trimming.stop()
      await goneContainers.stop()
      await usage.close()
      await instance.stop()
    },
  }
}
