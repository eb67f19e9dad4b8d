import type { Logger } from 'pino'
import type { WatchResponse } from '../../proto/gen/berth/agent/v1/watch.js'
import { notFound } from '../../shared/errors.js'
import { steadyClock } from '../../shared/steady-clock.js'
import type { GatewayConfig } from '../config.js'
import { ensureAuthority, type Authority } from '../pki/authority.js'
import { GatewayLeaf } from '../pki/gateway-leaf.js'
import type { Store } from '../store/store.js'
import { GrpcAgentClient } from './agents/agent-client.js'
import { AgentLink, offlineError } from './agents/agent-link.js'
import { connectAgent, type AgentConnection, type AgentTarget } from './agents/agent-connection.js'
import { CertificateKeeper, isConnectionGood } from './certificates.js'
import { ClockCheck } from './agents/clock-check.js'
import { KeyedCondition } from '../../shared/async/keyed-condition.js'
import type {
  AgentClient,
  Fleet,
  GuestCreation,
  GuestCreationRequest,
  HeldRoom,
  OperationView,
  OrderedOperation,
} from './contract.js'
import { GuestCache } from './guest-cache.js'
import { GuestCreator } from './placement/creation.js'
import { GuestRegistry } from './placement/guest-registry.js'
import { StoredHostAdmin } from './host-admin.js'
import type { HostState } from './host-state.js'
import { HostStore } from './host-store.js'
import { HostWatcher } from './host-watcher.js'
import { JoinServer } from '../join/join-server.js'
import { JoinTokens } from './join-tokens.js'
import { connectForRenewal } from './agents/renewal-connection.js'
import type { GuestClaim } from './placement/plan-claims.js'
import { PauseWatch } from './pause-watch.js'
import { UnlistedOperations, type ConnectedHost } from './unlisted-operations.js'
import { isEnded } from './lists/operation-table.js'
import { FleetState } from './view.js'
import { WatchedHosts } from './watched-hosts.js'

const hourMs = 3_600_000
/** How soon another gateway's changes of hosts are noticed. */
const pollHostsMs = 2000
/** How long a start waits for hosts. */
const settleMs = 2000
const sweepEveryMs = 30_000
/** A younger reservation may belong to a creation in progress. */
const reservationGraceMs = 120_000

export interface FleetOptions {
  readonly store: Store
  readonly config: GatewayConfig
  readonly log: Logger
}

/** The gateway's side of all hosts: records, connections and what they report. */
export class GatewayFleet implements Fleet {
  readonly view: FleetState
  readonly hosts: StoredHostAdmin
  readonly #watched: WatchedHosts
  readonly #cache: GuestCache
  readonly #registry: GuestRegistry
  readonly #creator: GuestCreator
  readonly #keeper: CertificateKeeper
  readonly #clients = new WeakMap<HostState, GrpcAgentClient>()
  /** Callers that wait for a change of a host, by its id. */
  readonly #hostChanged = new KeyedCondition()
  readonly #operationChanged = new KeyedCondition()
  readonly #pauses = new PauseWatch(() => this.#wasPaused())
  readonly #unlisted: UnlistedOperations
  readonly #timers: NodeJS.Timeout[] = []
  #joinServer: JoinServer | undefined

  private constructor(
    private readonly options: FleetOptions,
    private readonly authority: Authority,
    private readonly leaf: GatewayLeaf,
  ) {
    const { store, config, log } = options
    const leafLifetimeMs = config.certificates.leaf_hours * hourMs
    this.view = new FleetState(
      (hostId, uuid) => this.#cache.note(hostId, uuid),
      (id) => this.#operationChanged.notify(id),
    )
    this.#cache = new GuestCache(store, log, (hostId, uuid) => this.view.findState(hostId)?.guests.get(uuid)?.guest)
    const hostStore = new HostStore(store)
    const clock = new ClockCheck(store)
    this.#watched = new WatchedHosts({
      view: this.view,
      store: hostStore,
      cache: this.#cache,
      log,
      createWatcher: (host) => this.#createWatcher(host),
      restored: (host) => this.#restoreGuests(host),
    })
    this.#registry = new GuestRegistry(store)
    this.hosts = new StoredHostAdmin({
      view: this.view,
      store: hostStore,
      registry: this.#registry,
      authority,
      clock,
      leafLifetimeMs,
      tokens: new JoinTokens(store, authority),
      tokenLifetimeMs: config.join_token_minutes * 60_000,
      joinAddress: () => this.joinAddress,
      adopt: (record) => this.#watched.adopt(record),
      forget: (hostId) => this.#watched.forget(hostId),
    })
    const { cpu_ratio: cpu, ram_ratio: ram, disk_ratio: disk } = config.placement
    this.#creator = new GuestCreator({
      view: this.view,
      registry: this.#registry,
      log,
      ratios: { cpu, ram, disk },
      agent: (hostId) => this.agent(hostId),
      reached: (hostId, revision) => this.reached(hostId, revision),
    })
    this.#unlisted = new UnlistedOperations({ view: this.view, log, hosts: () => this.#connectedHosts() })
    this.#keeper = new CertificateKeeper({
      authority,
      leaf,
      leafLifetimeMs,
      log,
      clock,
      callTimeoutMs: config.agents.call_timeout_ms,
      connectForRenewal: (host) => connectForRenewal(this.#targetOf(host)),
      hosts: () => this.#watched.entries(),
      updateRecord: async (hostId, change) => this.#watched.adopt(await hostStore.update(hostId, change)),
    })
  }

  /**
   * Makes the CA if there is none, opens the join endpoint and begins to watch all hosts. Resolves when each host has
   * reported or is unreachable, or after 2 s; waits in the background for a store that is down.
   */
  static async start(options: FleetOptions): Promise<GatewayFleet> {
    const { config, log } = options
    const authority = await ensureAuthority(`${config.state_dir}/pki`, config.certificates.ca_days)
    const leafLifetimeMs = config.certificates.leaf_hours * hourMs
    const fleet = new GatewayFleet(options, authority, await GatewayLeaf.issue(authority, leafLifetimeMs))
    fleet.#joinServer = await JoinServer.start(config.join_listen, {
      authority,
      leafLifetimeMs,
      log,
      join: (request) => fleet.hosts.join(request),
    })
    if (/^(0\.0\.0\.0|\[::\]):/.test(fleet.joinAddress))
      log.warn({ address: fleet.joinAddress }, 'join_address is not set: only agents on this machine can join')
    await fleet.#watched.settle(settleMs)
    fleet.#keeper.start()
    fleet.#cache.start()
    fleet.#timers.push(
      setInterval(() => void fleet.#watched.poll(), pollHostsMs),
      setInterval(() => void fleet.#sweep(), sweepEveryMs),
    )
    return fleet
  }

  async close(): Promise<void> {
    this.#keeper.stop()
    this.#pauses.stop()
    this.#timers.forEach((timer) => clearInterval(timer))
    this.#watched.stop()
    await this.#cache.stop()
    this.#hostChanged.releaseAll()
    this.#operationChanged.releaseAll()
    await this.#joinServer?.close()
  }

  /** host:port at which agents reach the join endpoint. */
  get joinAddress(): string {
    const { join_address, join_listen } = this.options.config
    if (join_address) return join_address
    return join_listen.endsWith(':0') ? join_listen.slice(0, -1) + this.#joinServer!.port : join_listen
  }

  get isComplete(): boolean {
    return this.#watched.isComplete
  }

  agent(hostId: string): AgentClient {
    const host = this.view.findState(hostId)
    if (!host) throw notFound('host')
    const client = this.#clientOf(host)
    if (!client.link.isUsable) throw offlineError(host)
    return client
  }

  #clientOf(host: HostState): GrpcAgentClient {
    let client = this.#clients.get(host)
    if (!client) {
      const { reconnect_ms: reconnectMs, call_timeout_ms: timeoutMs } = this.options.config.agents
      const link = new AgentLink({
        host,
        hostChanged: this.#hostChanged,
        reconnectMs,
        connection: () => this.#findConnection(host),
        lastPauseMs: () => this.#pauses.check(),
      })
      client = new GrpcAgentClient(link, timeoutMs)
      this.#clients.set(host, client)
    }
    return client
  }

  #findConnection(host: HostState): AgentConnection | undefined {
    const connection = this.#watched.findWatcher(host.record.id)?.connection
    return connection && isConnectionGood(host, connection) ? connection : undefined
  }

  /** Connections may have broken without an error, so all are replaced, and calls wait for the new ones. */
  #wasPaused(): void {
    this.options.log.warn('this process was paused; connecting to all hosts again')
    for (const { host, watcher } of this.#watched.entries()) {
      this.#clientOf(host).link.distrust()
      watcher.refresh()
    }
  }

  async createGuest(request: GuestCreationRequest): Promise<GuestCreation> {
    const creation = await this.#creator.create(request)
    await this.#showCreated(creation, request.operationId)
    // Stored before it is acknowledged, in case this gateway and then the host fail.
    if (creation.response.guest) await this.#cache.keep(creation.hostId, creation.response.guest)
    return creation
  }

  holdRoom(): HeldRoom {
    return this.#creator.holdRoom()
  }

  async isCreation(operationId: string): Promise<boolean> {
    return (await this.#registry.findByOperation(operationId)) !== undefined
  }

  /** Shows a created guest when the host went away before its watch reported it. */
  async #showCreated({ hostId, response }: GuestCreation, operationId: string): Promise<void> {
    const { guest, operation, revision } = response
    const host = this.view.findState(hostId)
    if (!host || host.revision >= revision) return
    if (guest) {
      await this.#checkOwners(host, [guest])
      this.view.apply(host, { $case: 'guest', value: guest })
    }
    if (operation?.id === operationId) this.view.apply(host, { $case: 'operation', value: operation })
  }

  async findOperation(id: string): Promise<OperationView | undefined> {
    return this.view.findOperation(id) ?? (await this.#unlisted.find(id))
  }

  #connectedHosts(): ConnectedHost[] {
    return [...this.view.states()].flatMap((host) => {
      const agent = this.#clientOf(host)
      return agent.link.ready() ? [{ host, agent }] : []
    })
  }

  async ended({ hostId, operationId }: OrderedOperation, timeoutMs: number): Promise<OperationView | undefined> {
    const find = (): OperationView | undefined => this.view.findOperation(operationId)
    await this.#operationChanged.wait(operationId, timeoutMs, () => {
      const known = find()
      return (known !== undefined && isEnded(known.operation)) || !this.#isOnline(hostId)
    })
    return find()
  }

  async reached(hostId: string, revision: number): Promise<void> {
    const isOver = (): boolean => {
      const host = this.view.findState(hostId)
      return !host?.online || host.revision >= revision
    }
    await this.#hostChanged.wait(hostId, this.options.config.agents.call_timeout_ms, isOver)
  }

  #isOnline(hostId: string): boolean {
    return this.view.findState(hostId)?.online ?? false
  }

  /** Callers do not wait for an offline host. */
  #connectivityChanged(host: HostState): void {
    this.#hostChanged.notify(host.record.id)
    if (host.online) return
    this.#clientOf(host).link.cancelCalls()
    this.#operationChanged.notifyAll()
  }

  #createWatcher(host: HostState): HostWatcher {
    return new HostWatcher({
      host,
      view: this.view,
      log: this.options.log,
      reconnectMs: this.options.config.agents.reconnect_ms,
      connect: () => this.#connect(host),
      checkOwners: (_host, guests) => this.#checkOwners(host, guests),
      guestsGone: (_host, uuids) => this.#releaseGone(host, uuids),
      guestChanged: (_host, message) => void this.#guestChanged(host, message),
      advanced: () => this.#hostChanged.notify(host.record.id),
      failed: (reason) => this.#connectionFailed(host, reason),
      connectivityChanged: () => this.#connectivityChanged(host),
    })
  }

  #connectionFailed(host: HostState, reason: unknown): void {
    const watcher = this.#watched.findWatcher(host.record.id)
    if (watcher) void this.#keeper.renewRefused(host, watcher, reason)
  }

  #connect(host: HostState): AgentConnection {
    return connectAgent(this.#targetOf(host))
  }

  #targetOf(host: HostState): AgentTarget {
    return {
      hostId: host.record.id,
      address: host.record.address,
      caPem: this.authority.caPem,
      leaf: this.leaf.current,
      isRevoked: (serial) => !host.record.serials.includes(serial),
      silenceMs: this.options.config.agents.silence_ms,
    }
  }

  async #checkOwners(host: HostState, guests: readonly GuestClaim[]): Promise<void> {
    const claims = guests.map(({ uuid, id, name }) => ({ uuid, id, name }))
    const refused = await this.#registry.claim(host.record.id, claims)
    for (const { uuid } of claims) this.view.disown(host, uuid, refused.get(uuid))
    if (refused.size > 0)
      this.options.log.warn({ host: host.record.id, refused: [...refused.values()].slice(0, 20) }, 'guests not shown')
  }

  /** Writes ids, names and last known states of a host's guests to a store that lost them. */
  async #restoreGuests(host: HostState): Promise<void> {
    const known = [...host.guests.values(), ...host.conflicts.values()].map(({ guest }) => guest)
    for (const { uuid } of known) this.#cache.note(host.record.id, uuid)
    await this.#checkOwners(host, known)
  }

  /** Updates the store after a host's report on its guests; after a failure the next sync or sweep does. */
  async #guestChanged(host: HostState, { event }: WatchResponse): Promise<void> {
    try {
      if (event?.$case === 'guest') await this.#checkOwners(host, [event.value])
      if (event?.$case === 'removed') await this.#registry.release(host.record.id, event.value.key)
    } catch (error) {
      this.options.log.warn({ host: host.record.id, error }, 'guest not noted in the store yet')
    }
  }

  /** Frees names of deleted guests at once; a sweep frees reservations never seen on a host, after their grace. */
  async #releaseGone(host: HostState, uuids: readonly string[]): Promise<void> {
    try {
      for (const uuid of uuids) await this.#registry.release(host.record.id, uuid)
    } catch (error) {
      this.options.log.warn(
        { host: host.record.id, error },
        'reservations of deleted guests not released; the sweep will',
      )
    }
  }

  async #sweep(): Promise<void> {
    const { log, config } = this.options
    if (!this.#watched.isComplete) return
    try {
      const madeBeforeMs = steadyClock.earliest() - reservationGraceMs - config.agents.call_timeout_ms
      const freed = await this.#registry.sweep(({ hostId, uuid }) => {
        const host = this.view.findState(hostId)
        // An offline host may have the guest.
        return host !== undefined && (!host.online || host.guests.has(uuid) || host.conflicts.has(uuid))
      }, madeBeforeMs)
      if (freed.length > 0) log.info({ freed: freed.map(({ name }) => name) }, 'reservations without guest freed')
    } catch (error) {
      log.debug({ error }, 'reservations not swept')
    }
  }
}
