import type { Logger } from 'pino'
import { BerthError, invalidField } from '../../shared/errors.js'
import { AddressSet, parseAddressList } from '../access/addresses.js'
import { StoredDocument } from '../store/document.js'
import type { Store } from '../store/store.js'
import { isForwarded, isLoopback, isSecure, readSource, type Origin, type Source } from './source.js'

/** Limits which addresses may reach the gateway. Lists contain canonical addresses and CIDRs. */
export interface AccessPolicy {
  readonly enabled: boolean
  /** Addresses from which the gateway is reachable while the policy is enabled. */
  readonly allowedSources: readonly string[]
  /** Proxies whose headers about the client are trusted, in addition to the proxies in gateway.yaml. */
  readonly trustedProxies: readonly string[]
}

const everybody: AccessPolicy = { enabled: false, allowedSources: [], trustedProxies: [] }

export interface Judgement extends Source {
  readonly allowed: boolean
  /** True if the request was encrypted with TLS, to this gateway or to a trusted proxy. */
  readonly secure: boolean
}

export interface AccessPolicyOptions {
  readonly store: Store
  /** Addresses and CIDRs of trusted proxies from the configuration. */
  readonly trustedProxies: readonly string[]
  readonly log: Logger
}

/**
 * Decides which addresses may reach the gateway, for pages, requests and WebSockets. All gateways on a store share one
 * policy. Changes take effect immediately. Create the object before `store.start()`.
 */
export class AccessPolicies {
  readonly #document: StoredDocument<AccessPolicy>
  readonly #configured: readonly string[]
  #rules: Rules

  /** @throws {BerthError} `invalid_field` if a trusted proxy in the configuration is invalid */
  constructor({ store, trustedProxies, log }: AccessPolicyOptions) {
    this.#configured = parseAddressList('http.trusted_proxies', trustedProxies.join())
    this.#rules = compile(everybody, this.#configured)
    this.#document = new StoredDocument({ store, name: 'access-policy', initial: everybody, log })
    this.#document.onChange((policy) => (this.#rules = compile(policy, this.#configured)))
  }

  /** Calls the listener after each change of the policy, by any gateway, as soon as this process applies the change. */
  onChange(listener: () => void): void {
    this.#document.onChange(listener)
  }

  /** Returns the policy. @throws {BerthError} `store_unavailable` if the store has not been reached yet */
  get policy(): AccessPolicy {
    return this.#document.current
  }

  /** Judges a request. Until the store has been reached, only requests from the gateway's own server are permitted. */
  judge(origin: Origin): Judgement {
    const secure = isSecure(origin, this.#rules.trusted)
    if (this.#document.value !== undefined) return { ...judge(this.#rules, origin), secure }
    const source = readSource(origin, this.#rules.trusted)
    return { ...source, secure, allowed: isLoopback(origin.peer) && !isForwarded(origin.headers) }
  }

  /**
   * Changes the given fields, if the caller's address stays permitted.
   * @throws {BerthError} `invalid_field`, `access_policy_lockout`, `store_unavailable`
   */
  change(fields: Partial<AccessPolicy>, asker: Origin): Promise<AccessPolicy> {
    return this.#document.update((old) => {
      const policy = checkPolicy({ ...old, ...fields })
      const { allowed, address } = judge(compile(policy, this.#configured), asker)
      if (!allowed) throw lockout(`must contain your own address ${address}`)
      return policy
    })
  }

  /** Disables the policy, for operators that it has locked out. */
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

/** A policy whose lists of addresses are converted for fast look-ups. */
interface Rules {
  readonly enabled: boolean
  readonly allowed: AddressSet
  /** Trusted proxies. `undefined` if no proxy is trusted. */
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
 * Decides if a request is permitted. Programs on the gateway's server are always permitted, so that nobody is locked
 * out for good. Requests that an untrusted proxy on this server forwards are rejected, because their clients are not
 * known.
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

/** True for `localhost` and loopback addresses. Other names do not count, because any name can resolve to 127.0.0.1. */
function isLoopbackHost(host: string): boolean {
  return /^(localhost|127\.\d{1,3}\.\d{1,3}\.\d{1,3}|\[::1\])(:\d{1,5})?$/i.test(host)
}
