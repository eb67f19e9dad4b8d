import type { Logger } from 'pino'
import type { Ratios } from '../../shared/allocation.js'
import type { GatewayConfig } from '../config.js'
import type { Gateways } from '../gateways/gateways.js'
import type { Authority } from '../pki/authority.js'
import { FleetAuthority } from '../pki/fleet-authority.js'
import { GatewayLeaves } from '../pki/gateway-leaves.js'
import type { Store } from '../store/store.js'
import { distrustMs } from '../store/plan-visibility.js'
import { AgentConnector } from './agents/agent-connector.js'
import { CertificateKeeper } from './certificates.js'
import { CaRotation } from './rotation/ca-rotation.js'
import type { RotationMembers } from './rotation/members.js'
import { ClockCheck } from './agents/clock-check.js'
import type { AgentClient } from './agent-contract.js'
import type { Fleet, HostUpgrades, OperationView } from './contract.js'
import type { GuestCreation, GuestCreationRequest, HeldRoom } from './creation-contract.js'
import { GuestCache } from './guest-cache.js'
import { GuestImports } from './guest-imports.js'
import { MoveStore } from './moves/move-store.js'
import { CreatedGuests } from './created-guests.js'
import { GuestCreator } from './placement/creation.js'
import { EvacuationStore } from './evacuation/evacuation-store.js'
import { GuestOwners } from './placement/guest-owners.js'
import { GuestRegistry } from './placement/guest-registry.js'
import { Placement } from './placement/placement.js'
import { FleetPorts } from './placement/fleet-ports.js'
import { RoomStore } from './placement/room-store.js'
import { openRelocation, type OpenRelocation } from './relocation.js'
import { StoredHostAdmin } from './host-admin.js'
import { HostStore } from './host-store.js'
import { HostUpgrader } from './host-upgrader.js'
import { JoinEndpoint } from '../join/join-endpoint.js'
import { ensureJoinKey } from '../join/join-key.js'
import { JoinTokens } from './join-tokens.js'
import type { MovedStandbysOptions } from './standby/moved-standbys.js'
import type { ListeningSockets } from '../sockets/listening-sockets.js'
import { PauseWatch } from './pause-watch.js'
import { UnlistedOperations } from './unlisted-operations.js'
import { UnreportedGuests } from './unreported-guests.js'
import { FleetState } from './view.js'
import { ViewWaits } from './view-waits.js'
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
  /** View that shows the state reported by agents. Default: an empty view. */
  readonly view?: FleetState
  /** Keeps the listening socket open while the service restarts. If absent, the socket closes when the process ends. */
  readonly sockets?: ListeningSockets | undefined
  /** Maximum time in ms for which the start waits for reports of hosts. Default: 2000. */
  readonly settleMs?: number | undefined
  /** The other gateways. Absent: this gateway is the only one, and no other gateway can join. */
  readonly gateways?: (Pick<Gateways, 'join' | 'otherJoinAddresses'> & RotationMembers) | undefined
  readonly standbyEnded?: MovedStandbysOptions['standbyEnded']
  /** The private CA. Default: the CA in the state directory. If it does not exist, it is created. */
  readonly authority?: FleetAuthority | undefined
}

/** The gateway's fleet: host records, connections to agents, and the reported state. */
export class GatewayFleet implements Fleet {
  readonly view: FleetState
  readonly hosts: StoredHostAdmin
  readonly upgrades: HostUpgrades
  readonly overcommit: Ratios
  readonly ports: FleetPorts
  readonly #watched: WatchedHosts
  readonly #cache: GuestCache
  readonly #registry: GuestRegistry
  readonly #owners: GuestOwners
  readonly #placement: Placement
  readonly #creator: GuestCreator
  readonly #created: CreatedGuests
  readonly rotation: CaRotation
  readonly #keeper: CertificateKeeper
  readonly #pauses = new PauseWatch(() => this.#wasPaused())
  readonly #unlisted: UnlistedOperations
  readonly #unreported: UnreportedGuests
  readonly relocation: OpenRelocation
  readonly #imports: GuestImports
  readonly #join: JoinEndpoint
  readonly #waits: ViewWaits
  readonly #timers: NodeJS.Timeout[] = []

  private constructor(
    private readonly options: FleetOptions,
    authority: FleetAuthority,
    leaves: GatewayLeaves,
    joinKeyPem: string,
  ) {
    const { store, config, log, view = new FleetState() } = options
    this.view = view
    const { reconnect_ms: reconnectMs, call_timeout_ms: callTimeoutMs, silence_ms: silenceMs } = config.agents
    const { cpu_ratio: cpu, ram_ratio: ram, disk_ratio: disk } = config.placement
    const leafLifetimeMs = config.certificates.leaf_hours * hourMs
    const clock = new ClockCheck(store)
    const hostStore = new HostStore(store)
    const connector = new AgentConnector({
      authority,
      leafFor: (record) => leaves.of(this.rotation.issuerOf(record)),
      silenceMs,
    })
    const registry = (this.#registry = new GuestRegistry(store))
    const cache = (this.#cache = new GuestCache(store, log, view))
    const moves = new MoveStore(store)
    const evacuations = new EvacuationStore(store)
    const moving = { list: async () => [...(await moves.list()), ...(await evacuations.list())] }
    const owners = (this.#owners = new GuestOwners({ view, registry, moves: moving, log }))
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
    this.rotation = new CaRotation({
      store,
      log,
      authority,
      clock,
      view,
      watched,
      caDays: config.certificates.ca_days,
      gateways: options.gateways,
      isInUse: (fingerprint) => watched.useLeaf(fingerprint, leaves.of(fingerprint).serial),
      checkHosts: () => this.#keeper.check(),
    })
    this.#keeper = new CertificateKeeper({
      leaves,
      rotation: this.rotation,
      authorityPem: (fingerprint) => authority.of(fingerprint).caPem,
      isMoving: (hostId) => moves.isMoving(hostId),
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
      installCommand: (token) => this.#join.installCommand(token),
    })
    this.#join = new JoinEndpoint({
      config,
      authority,
      leafLifetimeMs,
      privateKeyPem: joinKeyPem,
      version: options.version,
      hosts: this.hosts,
      log,
      sockets: options.sockets,
      join: (request, source) => this.hosts.join(request, source),
      joinGateway: options.gateways && ((request) => options.gateways!.join(request)),
    })
    this.upgrades = new HostUpgrader({
      view,
      watched,
      tokens,
      version: options.version,
      joinAddress: () => this.joinAddress,
      packagedVersion: () => this.#join.packagedVersion(),
    })
    const ratios = (this.overcommit = { cpu, ram, disk })
    const rooms = new RoomStore(store)
    const ports = (this.ports = new FleetPorts({ store, view, rooms, log }))
    const placement = (this.#placement = new Placement({ view, rooms, ratios, ports, log }))
    this.#creator = new GuestCreator({ view, registry, placement, ratios, log, fleet: this })
    this.#created = new CreatedGuests({ view, owners, cache, callTimeoutMs })
    const reached = (hostId: string, revision: number): Promise<void> => this.reached(hostId, revision)
    const ticketIssuer = (hostId: string): Authority => {
      const target = view.findState(hostId)
      return authority.of(target && this.rotation.issuerOf(target.record))
    }
    const stores = { store, registry, moves, evacuations }
    const relocated = { ...stores, view, watched, placement, owners, ratios, ticketIssuer, log, reached }
    this.relocation = openRelocation({ ...relocated, standbyEnded: options.standbyEnded })
    this.#imports = new GuestImports({ view, fleet: this, log })
    this.#waits = new ViewWaits(view, callTimeoutMs)
    this.#unlisted = new UnlistedOperations({ view, log, watched })
    this.#unreported = new UnreportedGuests({ view, registry, watched })
    store.visibility.onShowing((revision) => this.#waits.revision(revision, distrustMs))
  }

  /** Creates the fleet without starting it. Creates a missing private CA. Call this before `store.start()`. */
  static async open(options: FleetOptions): Promise<GatewayFleet> {
    const { config } = options
    const authority =
      options.authority ?? (await FleetAuthority.open(`${config.state_dir}/pki`, config.certificates.ca_days))
    const joinKeyPem = await ensureJoinKey(`${config.state_dir}/pki/join-key.pem`)
    const leaves = await GatewayLeaves.issue(authority, config.certificates.leaf_hours * hourMs)
    return new GatewayFleet(options, authority, leaves, joinKeyPem)
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
    await this.ports.unique.refresh()
    await this.#watched.settle(this.options.settleMs ?? defaultSettleMs)
    await this.#join.open().catch(async (error: unknown) => {
      await this.close()
      throw error
    })
    this.#keeper.start()
    this.rotation.start()
    this.#cache.start()
    this.relocation.decider.start()
    this.relocation.keeper.start()
    this.#imports.start()
    this.#timers.push(
      setInterval(() => void this.#watched.poll(), pollHostsMs),
      setInterval(() => void this.#sweepReservations(), sweepEveryMs),
      setInterval(() => void this.#placement.clean(), sweepEveryMs),
    )
  }

  /** Closes the join endpoint. Waits up to `graceMs` for its requests in progress, then aborts them. */
  async closeJoin(graceMs: number): Promise<void> {
    await this.#join.close(graceMs)
  }

  /** Closes the fleet. Listeners get no more changes as soon as this method is called. */
  async close(): Promise<void> {
    this.#keeper.stop()
    const rotationClosed = this.rotation.close()
    this.#pauses.stop()
    this.#timers.forEach((timer) => clearInterval(timer))
    this.#watched.stop()
    await rotationClosed
    await this.relocation.keeper.stop()
    await this.relocation.decider.stop()
    await this.#imports.stop()
    await this.#cache.stop()
    this.view.hostChanged.releaseAll()
    this.view.operationChanged.releaseAll()
    await this.closeJoin(0)
  }

  /** host:port at which agents connect to join. */
  get joinAddress(): string {
    return this.#join.address
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

  /** Replaces all connections after a pause of this process, because they can be broken without a reported error. */
  #wasPaused(): void {
    this.options.log.warn(
      'the gateway process did not run for some time, for example because its computer was suspended; it connects to all hosts again',
    )
    for (const watcher of this.#watched.watchers()) watcher.distrust()
  }

  async createGuest(request: GuestCreationRequest): Promise<GuestCreation> {
    const creation = await this.#creator.create(request)
    await this.#created.show(creation, request.operationId)
    return creation
  }

  findUnreported(ref: string): ReturnType<Fleet['findUnreported']> {
    return this.#unreported.find(ref)
  }

  holdRoom(...hold: Parameters<Fleet['holdRoom']>): Promise<HeldRoom> {
    return this.#creator.holdRoom(...hold)
  }

  isExpecting(hostId: string): Promise<boolean> {
    return this.#placement.isExpecting(hostId)
  }

  async isCreation(operationId: string): Promise<boolean> {
    return (await this.#registry.findByOperation(operationId)) !== undefined
  }

  reserveName(uuid: string, name: string): Promise<void> {
    return this.#registry.names.reserve(uuid, name)
  }

  releaseName(uuid: string, name: string): Promise<void> {
    return this.#registry.names.release(uuid, name)
  }

  async findOperation(id: string): Promise<OperationView | undefined> {
    return this.view.findOperation(id) ?? (await this.#unlisted.find(id))
  }

  ended(...wait: Parameters<Fleet['ended']>): Promise<OperationView | undefined> {
    return this.#waits.ended(...wait)
  }

  async reached(hostId: string, revision: number): Promise<void> {
    await Promise.all([
      this.#waits.revision({ hostId, revision }),
      this.options.store.visibility.shownEverywhere({ hostId, revision }),
    ])
  }

  /** Does nothing until the list of hosts was read, because guests of unknown hosts would seem to be deleted. */
  async #sweepReservations(): Promise<void> {
    if (this.#watched.isComplete) await this.#owners.sweep(this.options.config.agents.call_timeout_ms)
  }
}
