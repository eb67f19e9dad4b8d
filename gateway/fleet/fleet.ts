import type { Logger } from 'pino'
import { notFound } from '../../shared/errors.js'
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
import { GuestOwners } from './placement/guest-owners.js'
import { GuestRegistry } from './placement/guest-registry.js'
import { StoredHostAdmin } from './host-admin.js'
import type { HostState } from './host-state.js'
import { HostStore } from './host-store.js'
import { HostWatcher } from './host-watcher.js'
import { Installer } from '../join/installer.js'
import { ensureJoinKey, pinOf } from '../join/join-key.js'
import { JoinServer } from '../join/join-server.js'
import { planCommand } from '../join/plan-command.js'
import { JoinTokens } from './join-tokens.js'
import { connectForRenewal } from './agents/renewal-connection.js'
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

export interface FleetOptions {
  readonly version: string
  readonly store: Store
  readonly config: GatewayConfig
  readonly log: Logger
}

/** The gateway's side of all hosts: records, connections and what they report. */
export class GatewayFleet implements Fleet {
  readonly view = new FleetState()
  readonly hosts: StoredHostAdmin
  readonly #watched: WatchedHosts
  readonly #cache: GuestCache
  readonly #registry: GuestRegistry
  readonly #owners: GuestOwners
  readonly #creator: GuestCreator
  readonly #keeper: CertificateKeeper
  readonly #clients = new WeakMap<HostState, GrpcAgentClient>()
  /** Callers that wait for a change of a host, by its id. */
  readonly #hostChanged = new KeyedCondition()
  readonly #pauses = new PauseWatch(() => this.#wasPaused())
  readonly #unlisted: UnlistedOperations
  readonly #installer: Installer
  readonly #timers: NodeJS.Timeout[] = []
  #joinServer: JoinServer | undefined

  private constructor(
    private readonly options: FleetOptions,
    private readonly authority: Authority,
    private readonly leaf: GatewayLeaf,
    joinKeyPem: string,
  ) {
    const { store, config, log } = options
    const leafLifetimeMs = config.certificates.leaf_hours * hourMs
    this.#cache = new GuestCache(store, log, this.view)
    const hostStore = new HostStore(store)
    const clock = new ClockCheck(store)
    this.#watched = new WatchedHosts({
      view: this.view,
      store: hostStore,
      cache: this.#cache,
      log,
      createWatcher: (host) => this.#createWatcher(host),
      restored: (host) => this.#owners.restore(host),
    })
    this.#registry = new GuestRegistry(store)
    this.#owners = new GuestOwners({ view: this.view, registry: this.#registry, log })
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
      installCommand: async (token) =>
        planCommand({
          address: this.joinAddress,
          pin: pinOf(joinKeyPem),
          token,
          hasPackages: await this.#installer.isAvailable(),
        }),
      adopt: (record) => this.#watched.adopt(record),
      forget: (hostId) => this.#watched.forget(hostId),
    })
    this.#installer = new Installer({
      packages: config.packages_dir,
      address: () => this.joinAddress,
      caPem: authority.caPem,
      version: options.version,
      hosts: this.hosts,
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
    const joinKeyPem = await ensureJoinKey(`${config.state_dir}/pki/join-key.pem`)
    const leaf = await GatewayLeaf.issue(authority, leafLifetimeMs)
    const fleet = new GatewayFleet(options, authority, leaf, joinKeyPem)
    fleet.#joinServer = await JoinServer.start(config.join_listen, {
      authority,
      leafLifetimeMs,
      log,
      privateKeyPem: joinKeyPem,
      installer: fleet.#installer,
      join: (request, source) => fleet.hosts.join(request, source),
    })
    if (/^(0\.0\.0\.0|\[::\]):/.test(fleet.joinAddress))
      log.warn({ address: fleet.joinAddress }, 'join_address is not set: only agents on this machine can join')
    await fleet.#watched.settle(settleMs)
    fleet.#keeper.start()
    fleet.#cache.start()
    fleet.#timers.push(
      setInterval(() => void fleet.#watched.poll(), pollHostsMs),
      setInterval(() => void fleet.#sweepReservations(), sweepEveryMs),
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
    this.view.operationChanged.releaseAll()
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
      await this.#owners.check(host, [guest])
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
    await this.view.operationChanged.wait(operationId, timeoutMs, () => {
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
    this.view.operationChanged.notifyAll()
  }

  #createWatcher(host: HostState): HostWatcher {
    return new HostWatcher({
      host,
      view: this.view,
      log: this.options.log,
      reconnectMs: this.options.config.agents.reconnect_ms,
      connect: () => this.#connect(host),
      checkOwners: (_host, guests) => this.#owners.check(host, guests),
      guestsGone: (_host, uuids) => this.#owners.releaseGone(host, uuids),
      guestChanged: (_host, message) => void this.#owners.guestChanged(host, message),
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

  /** Waits for all hosts' records, since a guest of a host that is not known yet looks missing. */
  async #sweepReservations(): Promise<void> {
    if (this.#watched.isComplete) await this.#owners.sweep(this.options.config.agents.call_timeout_ms)
  }
}
