import type { Logger } from 'pino'
import type { GatewayConfig } from '../config.js'
import type { Gateways } from '../gateways/gateways.js'
import { ensureAuthority, type Authority } from '../pki/authority.js'
import { GatewayLeaf } from '../pki/gateway-leaf.js'
import type { Store } from '../store/store.js'
import { distrustMs } from '../store/plan-visibility.js'
import type { HostRevision } from '../store/visibility-message.js'
import { AgentConnector } from './agents/agent-connector.js'
import { CertificateKeeper } from './certificates.js'
import { ClockCheck } from './agents/clock-check.js'
import type {
  AgentClient,
  Fleet,
  GuestCreation,
  GuestCreationRequest,
  GuestMovePlan,
  GuestView,
  PlannedMove,
  GuestMoveRequest,
  HeldRoom,
  HostUpgrades,
  OperationView,
  OrderedOperation,
} from './contract.js'
import { GuestCache } from './guest-cache.js'
import { GuestMover } from './moves/guest-mover.js'
import { MoveStore } from './moves/move-store.js'
import { GuestCreator } from './placement/creation.js'
import { GuestOwners } from './placement/guest-owners.js'
import { GuestRegistry } from './placement/guest-registry.js'
import { Placement } from './placement/placement.js'
import { RoomStore } from './placement/room-store.js'
import { StoredHostAdmin } from './host-admin.js'
import { HostStore } from './host-store.js'
import { HostUpgrader } from './host-upgrader.js'
import { Installer } from '../join/installer.js'
import { ensureJoinKey, pinOf } from '../join/join-key.js'
import { JoinServer } from '../join/join-server.js'
import { planCommand } from '../join/plan-command.js'
import { JoinTokens } from './join-tokens.js'
import type { ListeningSockets } from '../sockets/listening-sockets.js'
import { PauseWatch } from './pause-watch.js'
import { UnlistedOperations } from './unlisted-operations.js'
import { isEnded } from './lists/operation-table.js'
import { findReported } from './reported-guests.js'
import { FleetState } from './view.js'
import { WatchedHosts } from './watched-hosts.js'

const hourMs = 3_600_000
/** Interval in ms for reading the hosts, in case a notification of a change was not processed. */
const pollHostsMs = 2000
const defaultSettleMs = 2000
const sweepEveryMs = 30_000

export interface FleetOptions {
  readonly version: string
  readonly store: Store
  readonly config: GatewayConfig
  readonly log: Logger
  /** View that shows the reported state. Default: an empty view. */
  readonly view?: FleetState
  /** Keeps the listening socket open while the service restarts. If absent, the socket closes when the process ends. */
  readonly sockets?: ListeningSockets | undefined
  /** Maximum time in ms that the start waits for reports of hosts. Default: 2 s. */
  readonly settleMs?: number | undefined
  /** The other gateways. Absent: this gateway is the only one, and no other gateway can join. */
  readonly gateways?: Pick<Gateways, 'join' | 'otherJoinAddresses'> | undefined
}

/** The gateway's fleet: host records, connections to agents, and the reported state. */
export class GatewayFleet implements Fleet {
  readonly view: FleetState
  readonly hosts: StoredHostAdmin
  readonly upgrades: HostUpgrades
  readonly #watched: WatchedHosts
  readonly #cache: GuestCache
  readonly #registry: GuestRegistry
  readonly #owners: GuestOwners
  readonly #placement: Placement
  readonly #creator: GuestCreator
  readonly #keeper: CertificateKeeper
  readonly #pauses = new PauseWatch(() => this.#wasPaused())
  readonly #unlisted: UnlistedOperations
  readonly #mover: GuestMover
  readonly #installer: Installer
  readonly #timers: NodeJS.Timeout[] = []
  #joinServer: JoinServer | undefined

  private constructor(
    private readonly options: FleetOptions,
    private readonly authority: Authority,
    leaf: GatewayLeaf,
    private readonly joinKeyPem: string,
  ) {
    const { store, config, log, view = new FleetState() } = options
    this.view = view
    const { reconnect_ms: reconnectMs, call_timeout_ms: callTimeoutMs, silence_ms: silenceMs } = config.agents
    const { cpu_ratio: cpu, ram_ratio: ram, disk_ratio: disk } = config.placement
    const leafLifetimeMs = config.certificates.leaf_hours * hourMs
    const clock = new ClockCheck(store)
    const hostStore = new HostStore(store)
    const connector = new AgentConnector({ authority, leaf, silenceMs })
    const registry = (this.#registry = new GuestRegistry(store))
    const cache = (this.#cache = new GuestCache(store, log, view))
    const moves = new MoveStore(store)
    const owners = (this.#owners = new GuestOwners({ view, registry, moves, log }))
    const watched = (this.#watched = new WatchedHosts({
      view,
      store: hostStore,
      cache,
      log,
      owners,
      watcherOptions: {
        view,
        owners,
        connector,
        pauses: this.#pauses,
        log,
        reconnectMs,
        callTimeoutMs,
        connectionFailed: (watcher, reason) => void this.#keeper.renewRefused(watcher, reason),
      },
    }))
    this.#keeper = new CertificateKeeper({
      authority,
      leaf,
      leafLifetimeMs,
      log,
      clock,
      callTimeoutMs,
      connector,
      watched,
    })
    const tokens = new JoinTokens(store, authority)
    this.hosts = new StoredHostAdmin({
      view,
      store: hostStore,
      watched,
      registry,
      authority,
      clock,
      leafLifetimeMs,
      tokens,
      tokenLifetimeMs: config.join_token_minutes * 60_000,
      joinAddresses: () => [this.joinAddress, ...(options.gateways?.otherJoinAddresses ?? [])],
      installCommand: (token) => this.#planInstall(token),
    })
    this.#installer = new Installer({
      packages: config.packages_dir,
      address: () => this.joinAddress,
      caPem: authority.caPem,
      version: options.version,
      hosts: this.hosts,
    })
    this.upgrades = new HostUpgrader({
      view,
      watched,
      tokens,
      version: options.version,
      joinAddress: () => this.joinAddress,
      packagedVersion: () => this.#installer.agentVersion(),
    })
    const ratios = { cpu, ram, disk }
    const placement = (this.#placement = new Placement({ view, rooms: new RoomStore(store), ratios, log }))
    this.#creator = new GuestCreator({ view, registry, placement, ratios, log, fleet: this })
    this.#mover = new GuestMover({
      view,
      watched,
      placement,
      ratios,
      owners,
      authority,
      moves,
      log,
      reached: (hostId, revision) => this.reached(hostId, revision),
    })
    this.#unlisted = new UnlistedOperations({ view, log, watched })
    store.visibility.onShowing((revision) => this.#shows(revision, distrustMs))
  }

  /** Opens the fleet without starting it. Creates the private CA if it does not exist yet. Call it before `store.start()`. */
  static async open(options: FleetOptions): Promise<GatewayFleet> {
    const { config } = options
    const authority = await ensureAuthority(`${config.state_dir}/pki`, config.certificates.ca_days)
    const joinKeyPem = await ensureJoinKey(`${config.state_dir}/pki/join-key.pem`)
    const leaf = await GatewayLeaf.issue(authority, config.certificates.leaf_hours * hourMs)
    return new GatewayFleet(options, authority, leaf, joinKeyPem)
  }

  static async start(options: FleetOptions): Promise<GatewayFleet> {
    const fleet = await GatewayFleet.open(options)
    await fleet.start()
    return fleet
  }

  /**
   * Watches all hosts. Opens the join endpoint when each host has reported or is unreachable, or after 2 s. Does not
   * wait for a store that is down.
   */
  async start(): Promise<void> {
    await this.#watched.settle(this.options.settleMs ?? defaultSettleMs)
    await this.#openJoin().catch(async (error: unknown) => {
      await this.close()
      throw error
    })
    this.#keeper.start()
    this.#cache.start()
    this.#mover.start()
    this.#timers.push(
      setInterval(() => void this.#watched.poll(), pollHostsMs),
      setInterval(() => void this.#sweepReservations(), sweepEveryMs),
      setInterval(() => void this.#placement.clean(), sweepEveryMs),
    )
  }

  async #openJoin(): Promise<void> {
    const { config, log, sockets } = this.options
    this.#joinServer = await JoinServer.start(config.join_listen, {
      authority: this.authority,
      leafLifetimeMs: config.certificates.leaf_hours * hourMs,
      log,
      privateKeyPem: this.joinKeyPem,
      installer: this.#installer,
      sockets,
      join: (request, source) => this.hosts.join(request, source),
      joinGateway: this.options.gateways && ((request) => this.options.gateways!.join(request)),
    })
    if (/^(0\.0\.0\.0|\[::\]):/.test(this.joinAddress))
      log.warn({ address: this.joinAddress }, 'join_address is not set: only agents on this machine can join')
  }

  /** Closes the join endpoint. Waits up to `graceMs` for its requests in progress, then aborts them. */
  async closeJoin(graceMs: number): Promise<void> {
    await this.#joinServer?.close(graceMs)
  }

  /** Closes the fleet. Changes are no longer reported, even before the returned promise resolves. */
  async close(): Promise<void> {
    this.#keeper.stop()
    this.#pauses.stop()
    this.#timers.forEach((timer) => clearInterval(timer))
    this.#watched.stop()
    await this.#mover.stop()
    await this.#cache.stop()
    this.view.hostChanged.releaseAll()
    this.view.operationChanged.releaseAll()
    await this.closeJoin(0)
  }

  /** host:port at which agents connect to join. */
  get joinAddress(): string {
    const { join_address, join_listen } = this.options.config
    if (join_address) return join_address
    return join_listen.endsWith(':0') ? join_listen.slice(0, -1) + this.#joinServer!.port : join_listen
  }

  /** Creates the command that installs the agent on a host and joins it. */
  async #planInstall(token: string): Promise<string> {
    const hasPackages = await this.#installer.isAvailable()
    return planCommand({ address: this.joinAddress, pin: pinOf(this.joinKeyPem), token, hasPackages })
  }

  get isComplete(): boolean {
    return this.#watched.isComplete
  }

  agent(hostId: string): AgentClient {
    return this.#watched.agent(hostId)
  }

  expectedConnections(guestRef?: string): Promise<void> {
    return this.#watched.expectedConnections(guestRef)
  }

  /** Replaces all connections after a pause of this process. They may be broken although no error was reported. */
  #wasPaused(): void {
    this.options.log.warn('the gateway process was paused; it connects to all hosts again')
    for (const watcher of this.#watched.watchers()) watcher.distrust()
  }

  async createGuest(request: GuestCreationRequest): Promise<GuestCreation> {
    const creation = await this.#creator.create(request)
    await this.#reported(creation, request.operationId)
    await this.#showCreated(creation, request.operationId)
    // Stored before the client gets the answer, so that the guest is known even if this gateway and the host fail.
    if (creation.response.guest) await this.#cache.keep(creation.hostId, creation.response.guest)
    return creation
  }

  planMove(request: Pick<GuestMoveRequest, 'guest' | 'toHostId'>): Promise<GuestMovePlan> {
    return this.#mover.check(request)
  }

  planMoves(guests: readonly GuestView[]): Promise<PlannedMove[]> {
    return this.#mover.planAll(guests)
  }

  moveGuest(request: GuestMoveRequest): ReturnType<GuestMover['begin']> {
    return this.#mover.begin(request)
  }

  holdRoom(...hold: Parameters<Fleet['holdRoom']>): Promise<HeldRoom> {
    return this.#creator.holdRoom(...hold)
  }

  async isCreation(operationId: string): Promise<boolean> {
    return (await this.#registry.findByOperation(operationId)) !== undefined
  }

  /**
   * Waits until the view contains a new guest. The revision of the creation is not enough: a busy host combines several
   * changes of a guest in one report, which then has a later revision.
   */
  async #reported({ hostId, response: { guest } }: GuestCreation, operationId: string): Promise<void> {
    if (!guest) return
    const isOver = (): boolean => {
      const host = this.view.findState(hostId)
      const task = this.view.findOperation(operationId)?.operation
      return !host?.online || findReported(host, guest.uuid) !== undefined || (task !== undefined && isEnded(task))
    }
    await this.view.hostChanged.wait(hostId, this.options.config.agents.call_timeout_ms, isOver)
  }

  /** Adds a created guest to the view, if the guest's host went offline before it could report the guest. */
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

  async ended({ hostId, operationId }: OrderedOperation, timeoutMs: number): Promise<OperationView | undefined> {
    const find = (): OperationView | undefined => this.view.findOperation(operationId)
    await this.view.operationChanged.wait(operationId, timeoutMs, () => {
      const known = find()
      return (known !== undefined && isEnded(known.operation)) || !this.#isOnline(hostId)
    })
    return find()
  }

  async reached(hostId: string, revision: number): Promise<void> {
    await Promise.all([
      this.#shows({ hostId, revision }, this.options.config.agents.call_timeout_ms),
      this.options.store.visibility.shownEverywhere({ hostId, revision }),
    ])
  }

  async #shows({ hostId, revision }: HostRevision, timeoutMs: number): Promise<void> {
    const isOver = (): boolean => {
      const host = this.view.findState(hostId)
      return !host?.online || host.revision >= revision
    }
    await this.view.hostChanged.wait(hostId, timeoutMs, isOver)
  }

  #isOnline(hostId: string): boolean {
    return this.view.findState(hostId)?.online ?? false
  }

  /** Does nothing until the list of hosts was read: guests of hosts that are still unknown seem to be deleted. */
  async #sweepReservations(): Promise<void> {
    if (this.#watched.isComplete) await this.#owners.sweep(this.options.config.agents.call_timeout_ms)
  }
}
