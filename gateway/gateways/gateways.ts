import { createHash, createPublicKey, type KeyObject } from 'node:crypto'
import type { Logger } from 'pino'
import { conflict, describeError } from '../../shared/errors.js'
import { gatewayJoinAudience, type GatewayJoinRequest } from '../../shared/join-token.js'
import { signToken, verifyToken } from '../join/signed-token.js'
import type { Authority } from '../pki/authority.js'
import { StoredDocument } from '../store/document.js'
import type { Lease } from '../store/lease.js'
import type { RedisChoice } from '../store/redis-settings.js'
import type { Store } from '../store/store.js'
import { admit, dropExpired, invite, noGateways, noteStart, remove } from './gateway-list.js'
import type { GatewayList, GatewayRecord } from './gateway-list.js'
import { GatewayStatuses, type GatewayStatus } from './gateway-status.js'
import { machineName, type OwnGateway } from './own-gateway.js'
import { encodePublicKey, sealAnswer, type SealedAnswer } from './sealed-answer.js'
import { checkStoreShared, readSharedState, type SharedState } from './shared-state.js'

const reportEveryMs = 3000

export interface GatewaysOptions {
  readonly store: Store
  readonly authority: Authority
  readonly own: OwnGateway
  /** X25519 key with which this gateway decrypts secrets that other gateways have encrypted for it. */
  readonly privateKey: KeyObject
  readonly version: string
  readonly stateDir: string
  readonly redis: RedisChoice
  readonly tokenLifetimeMs: number
  readonly log: Logger
  /** Called, possibly repeatedly, when this gateway was removed from the fleet. It must stop serving requests. */
  readonly onRemoved: () => void
}

export const gatewayStates = ['invited', 'online', 'offline'] as const

/** A gateway as the API shows it. `status` is undefined if the gateway is offline. */
export interface GatewayView extends GatewayRecord {
  readonly state: (typeof gatewayStates)[number]
  readonly status: GatewayStatus | undefined
}

export interface GatewayInvitation {
  readonly gateway: GatewayView
  readonly token: string
  readonly expiresAtMs: number
}

/** Content of the encrypted answer to a server that joins as a gateway. */
export interface JoinedGateway extends OwnGateway {
  readonly state: SharedState
}

/** The gateways of the fleet, which share a store. Create the object before `store.start()`. */
export class Gateways {
  readonly #list: StoredDocument<GatewayList>
  readonly #statuses: GatewayStatuses
  readonly #startedAtMs = Date.now()
  #timer: NodeJS.Timeout | undefined
  #joinAddress = (): string => ''
  #leases: readonly Lease[] = []
  #onlineHosts = (): readonly string[] => []

  constructor(private readonly options: GatewaysOptions) {
    const { store, log, own } = options
    this.#list = new StoredDocument<GatewayList>({ store, name: 'gateways', initial: noGateways, log })
    this.#statuses = new GatewayStatuses(store, own.id)
    this.#list.onChange(() => this.#checkRemoved())
  }

  /**
   * Adds this gateway to the list, and reports its state regularly.
   * @param joinAddress returns host:port of this gateway's join endpoint
   * @param onlineHosts returns the ids of the hosts to which this gateway is connected
   */
  start(joinAddress: () => string, leases: readonly Lease[], onlineHosts: () => readonly string[]): void {
    this.#onlineHosts = onlineHosts
    this.#joinAddress = joinAddress
    this.#leases = leases
    const { store } = this.options
    store.on('up', () => void this.#register())
    if (store.ready()) void this.#register()
    this.#timer = setInterval(() => void this.#report(), reportEveryMs).unref()
  }

  async close(): Promise<void> {
    clearInterval(this.#timer)
    if (this.options.store.ready()) await this.#statuses.withdraw().catch(() => undefined)
  }

  get ownId(): string {
    return this.options.own.id
  }

  get privateKey(): KeyObject {
    return this.options.privateKey
  }

  members(): { id: string; name: string; publicKey: string | undefined }[] {
    const joined = this.#list.current.gateways.filter(({ joinedAtMs }) => joinedAtMs > 0)
    return joined.map(({ id, name, publicKey }) => ({ id, name, publicKey }))
  }

  get isRemoved(): boolean {
    return this.#list.value?.removed.includes(this.ownId) ?? false
  }

  /** True if the list contains other gateways, or invitations. False if the list has not been read yet. */
  get hasOthers(): boolean {
    return this.#list.value?.gateways.some(({ id }) => id !== this.ownId) ?? false
  }

  onChange(listener: () => void): void {
    this.#list.onChange(listener)
  }

  /** Addresses of the join endpoints of the other gateways, as host:port. */
  get otherJoinAddresses(): string[] {
    const others = this.#list.value?.gateways.filter(({ id }) => id !== this.ownId) ?? []
    const isLocal = !isReachable(this.#joinAddress()) // all gateways run on this server
    return others
      .map(({ joinAddress }) => joinAddress)
      .filter((address) => address !== '' && (isLocal || isReachable(address)))
  }

  /** Returns all gateways and open invitations. @throws {BerthError} `store_unavailable` */
  async list(): Promise<GatewayView[]> {
    const { gateways } = dropExpired(this.#list.current, Date.now())
    const statuses = await this.#statuses.read(gateways.map(({ id }) => id))
    return gateways.map((gateway, index) => viewOf(gateway, statuses[index]))
  }

  /** Names of the other gateways that were connected to a host at their last report, at most ten seconds ago. */
  async findOthersReaching(hostId: string): Promise<string[]> {
    const reaching = (await this.list()).filter(({ status }) => status?.onlineHosts?.includes(hostId))
    return reaching.filter(({ id }) => id !== this.ownId).map(({ name }) => name)
  }

  /**
   * Invites a server to become a gateway. The result contains a token for `berth-gateway join`.
   * @param operationId uuid of the request; a repeated request with it invites the same gateway
   * @throws {BerthError} `store_not_shared`, `name_conflict`, `too_many_gateways`
   */
  async invite(operationId: string, name: string): Promise<GatewayInvitation> {
    const { authority, redis, tokenLifetimeMs } = this.options
    checkStoreShared(redis)
    const id = `gw-${operationId.slice(0, 8)}`
    const now = Date.now()
    const expiresAtMs = Math.floor((now + tokenLifetimeMs) / 1000) * 1000
    const list = await this.#list.update((old) => invite(dropExpired(old, now), { id, name, untilMs: expiresAtMs }))
    const addresses = [this.#joinAddress(), ...this.otherJoinAddresses]
    const token = signToken(authority, gatewayJoinAudience, { subject: id, id: operationId, expiresAtMs, addresses })
    const gateway = list.gateways.find((invited) => invited.id === id)!
    return { gateway: viewOf(gateway), token, expiresAtMs }
  }

  /**
   * Lets the server with this token join. The answer contains all secrets, encrypted for the server's key.
   * @throws {BerthError} `join_token_invalid`, `invalid_field`, `store_not_shared`
   */
  async join({ token, public_key: publicKey, machine }: GatewayJoinRequest): Promise<SealedAnswer> {
    const { authority, redis, stateDir } = this.options
    const { subject: id } = verifyToken(authority, gatewayJoinAudience, token)
    checkStoreShared(redis)
    const state = await readSharedState(stateDir, redis)
    sealAnswer(publicKey, '') // throws if the key is invalid, before the token is used up
    const keyDigest = createHash('sha256').update(publicKey).digest('hex')
    const request = { id, keyDigest, machine: machineName(machine), nowMs: Date.now() }
    const { gateways } = await this.#list.update((old) => admit(old, request))
    const { name } = gateways.find((gateway) => gateway.id === id)!
    this.options.log.info({ gateway: id, name, machine }, 'a gateway has received the secrets of the fleet')
    const joined: JoinedGateway = { id, name, state }
    return sealAnswer(publicKey, JSON.stringify(joined))
  }

  /** Removes another gateway, or withdraws an invitation. @throws {BerthError} `not_found`, `own_gateway` */
  async remove(id: string): Promise<GatewayRecord> {
    if (id === this.ownId)
      throw conflict('own_gateway', 'a gateway cannot remove itself: send the request to another gateway')
    let removed: GatewayRecord | undefined
    await this.#list.update((old) => {
      removed = old.gateways.find((gateway) => gateway.id === id)
      return remove(old, id)
    })
    return removed!
  }

  async #register(): Promise<void> {
    const { own, version, log } = this.options
    try {
      await this.#list.refresh()
      const publicKey = encodePublicKey(createPublicKey(this.privateKey))
      const start = { ...own, version, joinAddress: this.#joinAddress(), startedAtMs: this.#startedAtMs, publicKey }
      if (!this.#isRegistered) await this.#list.update((old) => noteStart(old, start))
      if (this.#isRegistered) await this.#report()
    } catch (error) {
      log.warn({ why: describeError(error) }, 'this gateway could not be added to the list of gateways')
    }
  }

  async #report(): Promise<void> {
    if (!this.options.store.ready()) return
    if (this.#list.value && !this.#isRegistered) return this.#register()
    await this.#statuses.report(this.#leases, this.#onlineHosts()).catch(() => undefined) // a failed report is repeated after a few seconds
  }

  /** True if the list contains this gateway with its present start time, or if this gateway was removed. */
  get #isRegistered(): boolean {
    const { gateways = [] } = this.#list.value ?? {}
    const isListed = ({ id, startedAtMs }: GatewayRecord): boolean =>
      id === this.ownId && startedAtMs === this.#startedAtMs
    return gateways.some(isListed) || this.isRemoved
  }

  #checkRemoved(): void {
    if (this.isRemoved) this.options.onRemoved()
  }
}

function viewOf(gateway: GatewayRecord, status?: GatewayStatus): GatewayView {
  const state = gateway.joinedAtMs === 0 ? 'invited' : status ? 'online' : 'offline'
  return { ...gateway, state, status }
}

/** False for loopback and unspecified addresses, at which other servers cannot reach this server. */
function isReachable(address: string): boolean {
  return !/^(127\.|localhost:|0\.0\.0\.0:|\[::1?\]:)/.test(address)
}
