import type { Logger } from 'pino'
import { invalidField } from '../../shared/errors.js'
import { AddressSet, parseAddressList } from '../access/addresses.js'
import { StoredDocument } from '../store/document.js'
import type { Store } from '../store/store.js'
import { isForwarded, isLoopback, readSource, type Origin, type Source } from './source.js'

/** Addresses and CIDRs, canonical. */
export interface AccessPolicy {
  readonly enabled: boolean
  /** Who may reach the gateway at all, where it is enabled. */
  readonly allowedSources: readonly string[]
  /** Proxies whose forwarded-for headers count, beside those of the configuration. */
  readonly trustedProxies: readonly string[]
}

const everybody: AccessPolicy = { enabled: false, allowedSources: [], trustedProxies: [] }

export interface Judgement extends Source {
  readonly allowed: boolean
}

export interface AccessPolicyOptions {
  readonly store: Store
  /** Addresses or CIDRs, of the configuration. */
  readonly trustedProxies: readonly string[]
  readonly log: Logger
}

/**
 * Which addresses may reach the gateway, for pages, requests and sockets alike. One policy for all gateways of a
 * store, in force at once. To be made before `store.start()`.
 */
export class AccessPolicies {
  readonly #document: StoredDocument<AccessPolicy>
  readonly #configured: readonly string[]
  #rules: Rules

  /** @throws {BerthError} `invalid_field` for a trusted proxy of the configuration that is none */
  constructor({ store, trustedProxies, log }: AccessPolicyOptions) {
    this.#configured = parseAddressList('http.trusted_proxies', trustedProxies.join())
    this.#rules = compile(everybody, this.#configured)
    this.#document = new StoredDocument({ store, name: 'access-policy', initial: everybody, log })
    this.#document.onChange((policy) => (this.#rules = compile(policy, this.#configured)))
  }

  /** @throws {BerthError} `store_unavailable` until the store was reached once */
  get policy(): AccessPolicy {
    return this.#document.current
  }

  /** Until the store was reached once only this machine is let in. */
  judge(origin: Origin): Judgement {
    if (this.#document.value !== undefined) return judge(this.#rules, origin)
    const source = readSource(origin, this.#rules.trusted)
    return { ...source, allowed: isLoopback(origin.peer) && !isForwarded(origin.headers) }
  }

  /**
   * Changes the fields given, once it is sure that whoever asks stays in.
   * @throws {BerthError} `invalid_field`, `store_unavailable`
   */
  change(fields: Partial<AccessPolicy>, asker: Origin): Promise<AccessPolicy> {
    return this.#document.update((old) => {
      const policy = checkPolicy({ ...old, ...fields })
      const { allowed, address } = judge(compile(policy, this.#configured), asker)
      if (!allowed)
        throw invalidField('allowed_sources', `allowed_sources: would lock you out: you come from ${address}`)
      return policy
    })
  }

  /** For who locked himself out. */
  disable(): Promise<AccessPolicy> {
    return this.#document.update((old) => ({ ...old, enabled: false }))
  }
}

function checkPolicy(policy: AccessPolicy): AccessPolicy {
  const allProxies = policy.trustedProxies.find((entry) => entry.endsWith('/0'))
  if (allProxies !== undefined)
    throw invalidField(
      'trusted_proxies',
      `trusted_proxies: ${allProxies} is everybody, who could name any address`,
    )
  if (policy.enabled && policy.allowedSources.length === 0)
    throw invalidField('allowed_sources', 'allowed_sources: nobody could reach the gateway')
  return policy
}

/** A policy made ready for many requests. */
interface Rules {
  readonly enabled: boolean
  readonly allowed: AddressSet
  /** undefined: nobody. */
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
 * A program on this machine is let in, so that nobody is locked out for good. A proxy on it that nobody said to trust
 * is not, for whom it stands is not known.
 */
function judge({ enabled, allowed, trusted }: Rules, origin: Origin): Judgement {
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

/** A name of somebody's that leads to 127.0.0.1 is how pages of others reach programs of this machine. */
function isLoopbackHost(host: string): boolean {
  return /^(localhost|127\.\d{1,3}\.\d{1,3}\.\d{1,3}|\[::1\])(:\d{1,5})?$/i.test(host)
}
