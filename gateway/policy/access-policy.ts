import type { Logger } from 'pino'
import { BerthError, invalidField } from '../../shared/errors.js'
import { AddressSet, parseAddressList } from '../access/addresses.js'
import { StoredDocument } from '../store/document.js'
import type { Store } from '../store/store.js'
import { isForwarded, isLoopback, isSecure, readSource, type Origin, type Source } from './source.js'

/** Addresses and CIDRs, canonical. */
export interface AccessPolicy {
  readonly enabled: boolean
  /** Addresses that may reach the gateway while the policy is enabled. */
  readonly allowedSources: readonly string[]
  /** Proxies whose forwarded-for headers are trusted, in addition to the configured ones. */
  readonly trustedProxies: readonly string[]
}

const everybody: AccessPolicy = { enabled: false, allowedSources: [], trustedProxies: [] }

export interface Judgement extends Source {
  readonly allowed: boolean
  /** True if it came over TLS, here or at a trusted proxy. */
  readonly secure: boolean
}

export interface AccessPolicyOptions {
  readonly store: Store
  /** Addresses or CIDRs from the configuration. */
  readonly trustedProxies: readonly string[]
  readonly log: Logger
}

/**
 * Decides which addresses may reach the gateway, for pages, requests and sockets alike. All gateways on a store share
 * one policy, which takes effect at once. Create it before `store.start()`.
 */
export class AccessPolicies {
  readonly #document: StoredDocument<AccessPolicy>
  readonly #configured: readonly string[]
  #rules: Rules

  /** @throws {BerthError} `invalid_field` for an invalid trusted proxy in the configuration */
  constructor({ store, trustedProxies, log }: AccessPolicyOptions) {
    this.#configured = parseAddressList('http.trusted_proxies', trustedProxies.join())
    this.#rules = compile(everybody, this.#configured)
    this.#document = new StoredDocument({ store, name: 'access-policy', initial: everybody, log })
    this.#document.onChange((policy) => (this.#rules = compile(policy, this.#configured)))
  }

  /** Calls back after each change, also by another gateway, once it is in force here. */
  onChange(listener: () => void): void {
    this.#document.onChange(listener)
  }

  /** @throws {BerthError} `store_unavailable` until the store has been reached once */
  get policy(): AccessPolicy {
    return this.#document.current
  }

  /** Until the store has been reached once, only this machine is permitted. */
  judge(origin: Origin): Judgement {
    const secure = isSecure(origin, this.#rules.trusted)
    if (this.#document.value !== undefined) return { ...judge(this.#rules, origin), secure }
    const source = readSource(origin, this.#rules.trusted)
    return { ...source, secure, allowed: isLoopback(origin.peer) && !isForwarded(origin.headers) }
  }

  /**
   * Changes the given fields, after checking that the caller is still permitted.
   * @throws {BerthError} `invalid_field`, `access_policy_lockout`, `store_unavailable`
   */
  change(fields: Partial<AccessPolicy>, asker: Origin): Promise<AccessPolicy> {
    return this.#document.update((old) => {
      const policy = checkPolicy({ ...old, ...fields })
      const { allowed, address } = judge(compile(policy, this.#configured), asker)
      if (!allowed) throw lockout(`does not contain your own address ${address}`)
      return policy
    })
  }

  /** For an operator who is locked out by the policy. */
  disable(): Promise<AccessPolicy> {
    return this.#document.update((old) => ({ ...old, enabled: false }))
  }
}

function checkPolicy(policy: AccessPolicy): AccessPolicy {
  const allProxies = policy.trustedProxies.find((entry) => entry.endsWith('/0'))
  if (allProxies !== undefined)
    throw invalidField(
      'trusted_proxies',
      `trusted_proxies: must not be ${allProxies}: every client could then claim any address`,
    )
  if (policy.enabled && policy.allowedSources.length === 0)
    throw lockout('must not be empty: this would lock everyone out')
  return policy
}

function lockout(reason: string): BerthError {
  return new BerthError('invalid', 'access_policy_lockout', `allowed_sources: ${reason}`, {
    field: 'allowed_sources',
  })
}

/** A policy prepared for many requests. */
interface Rules {
  readonly enabled: boolean
  readonly allowed: AddressSet
  /** undefined: no proxy is trusted. */
  readonly trusted: AddressSet | undefined
}

function compile(policy: AccessPolicy, configured: readonly string[]): Rules {
  const trusted = [...policy.trustedProxies, ...configured]
  return {
    enabled: policy.enabled,
    allowed: new AddressSet(policy.allowedSources),
    trusted: trusted.length > 0 ? new AddressSet(trusted) : undefined,
  }
}

/**
 * Always lets programs on this machine in, so that nobody is locked out for good, but not an untrusted proxy on it,
 * since its client is unknown.
 */
function judge({ enabled, allowed, trusted }: Rules, origin: Origin): Omit<Judgement, 'secure'> {
  const { peer, headers } = origin
  const source = readSource(origin, trusted)
  if (!enabled) return { ...source, allowed: true }
  if (isLoopback(peer)) {
    const forwarded = isForwarded(headers)
    if (!forwarded && isLoopbackHost(headers.host ?? '')) return { ...source, allowed: true }
    if (forwarded && !trusted?.has(peer)) return { ...source, allowed: false }
  }
  return { ...source, allowed: source.valid && allowed.has(source.address) }
}

/** Refuses foreign names that resolve to 127.0.0.1, by which other sites' pages reach programs on this machine. */
function isLoopbackHost(host: string): boolean {
  return /^(localhost|127\.\d{1,3}\.\d{1,3}\.\d{1,3}|\[::1\])(:\d{1,5})?$/i.test(host)
}
