import type { Logger } from 'pino'
import { perMinute, RateLimit } from '../rate-limit.js'
import { GatewayInstance } from '../store/instance.js'
import type { Store } from '../store/store.js'
import { ApiKeys } from './api-keys.js'
import { AuditStore } from './audit.js'
import { KeyAuthenticator } from './authenticate.js'
import { importAdminKey } from './bootstrap.js'
import type { AccessControl, StoreHealth } from './contract.js'
import { FailureLog } from './failure-log.js'
import { IdempotencyStore } from './idempotency.js'
import { KeyCache } from './key-cache.js'
import { KeyUsage } from './key-usage.js'
import { RequestLimits, type RequestLimit } from './request-limits.js'
import { defaultRetention, Trimming, type Retention } from './retention.js'
import { authorize } from './scopes.js'

export interface LimitOptions {
  readonly caller: RequestLimit
  /** By source address, before anything is known of who calls. */
  readonly address: RequestLimit
  /** By source address. */
  readonly authFailuresPerMinute: number
}

/** For tests and figures. */
export const noLimits: LimitOptions = {
  caller: { perSecond: 0, atOnce: 0 },
  address: { perSecond: 0, atOnce: 0 },
  authFailuresPerMinute: 1_000_000_000,
}

export interface AccessOptions {
  /** Not started yet: the cache must hear of every change. */
  store: Store
  /** 32 bytes, of `readOrCreateKey`; the same in every gateway on one store. */
  secret: Buffer
  /** Where `createAdminKey` left the first key's digest. */
  stateDir: string
  /** Audit entries kept. */
  auditKeep: number
  readonly retention?: Retention
  log: Logger
  readonly limits: LimitOptions
}

/** Access control as the gateway runs it. */
export interface Access extends AccessControl {
  readonly audit: AuditStore
  readonly keys: ApiKeys
  readonly health: StoreHealth
  /** Keys held in memory. */
  cachedKeys(): number
  /** After `store.start()`. */
  start(): void
  /** Before `store.close()`. */
  close(): Promise<void>
}

export function createAccess(options: AccessOptions): Access {
  const { store, secret, stateDir, auditKeep, retention = defaultRetention, limits, log } = options
  const limit = new RateLimit(perMinute(limits.authFailuresPerMinute))
  const cache = new KeyCache(store)
  const usage = new KeyUsage(store)
  const instance = new GatewayInstance(store)
  const keys = new ApiKeys({ store, cache, usage, secret })
  const importKey = () =>
    importAdminKey(store, stateDir).catch((err: unknown) => log.error({ err }, 'import the admin key'))
  keys.onRemoved(importKey)
  // Of a store that was emptied while it ran, too.
  store.onInvalidate(store.key('admin-key', ''), () => void importKey())
  const failures = new FailureLog(log)
  const audit = new AuditStore(store, auditKeep, log)
  const idempotency = new IdempotencyStore(store, instance, secret, retention.repeatHours)
  const trims = [() => audit.trim(retention.auditDays), () => idempotency.trim(retention.repeats)]
  const trimming = new Trimming(store, trims, log)
  return {
    authenticator: new KeyAuthenticator({ store, cache, usage, failures, limit }),
    authorize,
    callers: new RequestLimits(limits.caller, 'this caller', log),
    addresses: new RequestLimits(limits.address, 'this address', log),
    audit,
    idempotency,
    keys,
    health: { ping: () => store.ping() },
    cachedKeys: () => cache.size,
    start: () => {
      store.on('up', () => void importKey())
      if (store.ready()) void importKey()
      instance.start()
      trimming.start()
    },
    close: async () => {
      trimming.stop()
      await usage.close()
      await instance.stop()
    },
  }
}
