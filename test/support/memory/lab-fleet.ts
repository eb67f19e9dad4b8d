import { join } from 'node:path'
import type { Logger } from 'pino'
import { createCsrPem, createPrivateKeyPem } from '../../../agent/enrollment/csr.js'
import { writeIdentity } from '../../../agent/enrollment/identity.js'
import { GatewayConfigSchema } from '../../../gateway/config.js'
import type { AgentClient } from '../../../gateway/fleet/agent-contract.js'
import type {
  Fleet,
  GuestView,
  HostAdmin,
  HostUpgrades,
  HostView,
  OperationView,
  OrderedOperation,
} from '../../../gateway/fleet/contract.js'
import type { GuestCreation, GuestCreationRequest, HeldRoom } from '../../../gateway/fleet/creation-contract.js'
import { GatewayFleet } from '../../../gateway/fleet/fleet.js'
import type { HostRecord } from '../../../gateway/fleet/host-record.js'
import { HostStore } from '../../../gateway/fleet/host-store.js'
import { ensureAuthority, type Authority } from '../../../gateway/pki/authority.js'
import type { Store } from '../../../gateway/store/store.js'
import type { Guest } from '../../../proto/gen/berth/agent/v1/guest.js'
import { validateConfig } from '../../../shared/config.js'
import { memoryAddresses } from './memory-host.js'
import { LabAgent, type LabGuest } from './lab-agent.js'
import { waitFor } from '../wait.js'

const caDays = 30
const leafMs = 24 * 3_600_000
/** Version that gateways of tests report. */
export const labVersion = '0.0.0'

export interface LabFleetOptions {
  readonly store: Store
  readonly stateDir: string
  readonly log: Logger
  /** Names of the hosts. By default only `host-a`. */
  readonly hosts?: readonly string[]
  /** Settings in the agent.yaml of each agent. */
  readonly agentConfig?: Record<string, unknown>
  /** Time in ms until a host whose connection was lost is offline. Default: 0, so that tests need not wait. */
  readonly reconnectMs?: number
}

/**
 * A gateway's real fleet with real agents in this process. Their hosts are simulated, and the id of each host is its
 * name. Agents accept operations but execute them only when `work` is called, so that tests can see pending operations.
 */
export class LabFleet implements Fleet {
  /** While set, every call to an agent throws this error, like the error of a broken connection. */
  agentFailure: Error | undefined
  /** Replaces the client of an agent, to simulate a lost answer or an agent that misbehaves. */
  twist = (client: AgentClient): AgentClient => client
  #isComplete: boolean | undefined
  #lastId = 100

  private constructor(
    private readonly fleet: GatewayFleet,
    /** Directory of the packages for hosts. It does not exist until a test creates it. */
    readonly packagesDirectory: string,
    readonly agents: ReadonlyMap<string, LabAgent>,
  ) {
    const open = fleet.agent.bind(fleet)
    fleet.agent = (hostId) => {
      const client = open(hostId)
      if (this.agentFailure) throw this.agentFailure
      return this.twist(client)
    }
  }

  static async start({
    store,
    stateDir,
    log,
    hosts = ['host-a'],
    agentConfig = {},
    reconnectMs = 0,
  }: LabFleetOptions): Promise<LabFleet> {
    // All agents run in this process. If it is overloaded, the gateway must not consider the agents offline.
    const agentSettings = { reconnect_ms: reconnectMs, silence_ms: 120_000 }
    const packages = join(stateDir, 'packages')
    const joining = { join_listen: '127.0.0.1:0', packages_dir: packages }
    const settings = { state_dir: stateDir, agents: agentSettings, ...joining }
    const config = validateConfig(GatewayConfigSchema, settings, 'lab')
    const authority = await ensureAuthority(join(stateDir, 'pki'), caDays)
    const started = await Promise.all(hosts.map((id) => startAgent({ id, authority, stateDir, agentConfig })))
    const agents = new Map(started.map(({ record, agent }) => [record.id, agent]))
    const fleet = await GatewayFleet.start({ version: labVersion, store, config, log })
    const lab = new LabFleet(fleet, packages, agents)
    // Registers the hosts one after another, because some API responses come from the host that was registered first.
    for (const { record } of started) {
      await new HostStore(store).create(record, () => undefined)
      await fleet.hosts.updateHost(record.id, { name: record.name })
    }
    for (const id of hosts) await lab.#waitFor(id, 'online')
    return lab
  }

  async close(): Promise<void> {
    await this.fleet.close()
    await Promise.all([...this.agents.values()].map((agent) => agent.destroy()))
  }

  expectedConnections(guestRef?: string): Promise<void> {
    return this.fleet.expectedConnections(guestRef)
  }

  findUnreported(ref: string): ReturnType<Fleet['findUnreported']> {
    return this.fleet.findUnreported(ref)
  }

  get hosts(): HostAdmin {
    return this.fleet.hosts
  }

  get upgrades(): HostUpgrades {
    return this.fleet.upgrades
  }

  get overcommit(): Fleet['overcommit'] {
    return this.fleet.overcommit
  }

  get ports(): Fleet['ports'] {
    return this.fleet.ports
  }

  get rotation(): GatewayFleet['rotation'] {
    return this.fleet.rotation
  }

  get view(): GatewayFleet['view'] {
    return this.fleet.view
  }

  get isComplete(): boolean {
    return this.#isComplete ?? this.fleet.isComplete
  }

  set isComplete(value: boolean | undefined) {
    this.#isComplete = value
  }

  agent(hostId: string): AgentClient {
    return this.fleet.agent(hostId)
  }

  createGuest(request: GuestCreationRequest): Promise<GuestCreation> {
    return this.fleet.createGuest(request)
  }

  reserveName(...given: Parameters<Fleet['reserveName']>): Promise<void> {
    return this.fleet.reserveName(...given)
  }

  releaseName(...given: Parameters<Fleet['releaseName']>): Promise<void> {
    return this.fleet.releaseName(...given)
  }

  get relocation(): Fleet['relocation'] {
    return this.fleet.relocation
  }

  holdRoom(...hold: Parameters<Fleet['holdRoom']>): Promise<HeldRoom> {
    return this.fleet.holdRoom(...hold)
  }

  isExpecting(hostId: string): Promise<boolean> {
    return this.fleet.isExpecting(hostId)
  }

  isCreation(operationId: string): Promise<boolean> {
    return this.fleet.isCreation(operationId)
  }

  findOperation(id: string): Promise<OperationView | undefined> {
    return this.fleet.findOperation(id)
  }

  /** This is a field and not a method, so that a test can replace it with a shorter wait. */
  ended = (operation: OrderedOperation, timeoutMs: number): Promise<OperationView | undefined> =>
    this.fleet.ended(operation, timeoutMs)

  /** This is a field and not a method, so that a test can replace it to delay the result. */
  reached = (hostId: string, revision: number): Promise<void> => this.fleet.reached(hostId, revision)

  guests(): Iterable<GuestView> {
    return this.view.guests()
  }

  operations(): OperationView[] {
    return this.view.operations()
  }

  agentOf(hostId: string): LabAgent {
    return this.agents.get(hostId)!
  }

  /** Adds a guest without an operation. Resolves when the gateway shows it. */
  async addGuest(fields: LabGuest = {}, hostId = 'host-a'): Promise<Guest> {
    const agent = this.agentOf(hostId)
    const { uuid } = agent.addGuest({ limits, createdAtMs: Date.UTC(2026, 10, 21, 10), ...fields, id: this.#freeId() })
    await this.caughtUp(hostId)
    return this.view.findGuest(uuid)!.guest
  }

  /** Lets hosts run virtual machines. Resolves when the gateway knows this. */
  async runMachines(...hostIds: readonly string[]): Promise<void> {
    for (const id of hostIds) {
      const { host } = this.agentOf(id)
      host.runsMachines = true
      host.machines = await host.driver.describe()
      const isKnown = (): boolean => this.view.findHost(id)?.description?.capabilities?.kvm ?? false
      await waitFor(isKnown, { what: `${id} with virtual machines` })
    }
  }

  /** Removes all guests from the agents' journals. Resolves when the gateway shows none of them. */
  async removeGuests(): Promise<void> {
    for (const [hostId, agent] of this.agents) {
      for (const { uuid } of agent.guests()) agent.removeGuest(uuid)
      await this.caughtUp(hostId)
    }
  }

  /** Returns an id that no guest has had so far. */
  #freeId(): number {
    const ids = [...this.agents.values()].flatMap((agent) => agent.guests().map(({ id }) => id))
    this.#lastId = Math.max(this.#lastId, ...ids) + 1
    return this.#lastId
  }

  /** Resolves when the gateway shows the present state of the agent's journal. */
  async caughtUp(hostId: string): Promise<void> {
    const { revision } = this.agentOf(hostId)
    const isShown = (): boolean => (this.view.findState(hostId)?.shownRevision ?? -1) >= revision
    await waitFor(isShown, { what: `revision ${revision} of ${hostId} at the gateway` })
  }

  /** Stops or starts the agent of a host. Resolves when the gateway has noticed it. */
  async setHostState(hostId: string, state: 'online' | 'offline'): Promise<void> {
    const agent = this.agentOf(hostId)
    await (state === 'offline' ? agent.stop() : agent.resume())
    await this.#waitFor(hostId, state)
  }

  /** Lets the agent begin to execute operations, including those submitted earlier. */
  async work(hostId: string): Promise<void> {
    const agent = this.agentOf(hostId)
    agent.parallel = 8
    await this.setHostState(hostId, 'offline')
    await this.setHostState(hostId, 'online')
  }

  /** Replaces the warnings of a host and waits until the gateway shows them. */
  async warn(hostId: string, ...warnings: string[]): Promise<void> {
    this.agentOf(hostId).host.wire.warnings = warnings
    await waitFor(() => this.view.findHost(hostId)?.warnings.join() === warnings.join(), { what: 'warnings' })
  }

  /** Adds traffic of a guest, as if its agent had read it from the packet counters. */
  async addTraffic(uuid: string, bytes: { rxBytes: number; txBytes: number }): Promise<void> {
    const { hostId } = this.view.findGuest(uuid)!
    const { host, domain } = this.agentOf(hostId)
    await domain.policy.look()
    host.wire.add(uuid, bytes)
    await domain.policy.look()
    await this.caughtUp(hostId)
  }

  /** Removes an operation from the gateway's view, as if it were too old. It stays in the agent's journal. */
  unlistOperation(id: string): void {
    const { hostId } = this.view.findOperation(id)!
    this.view.apply(this.view.findState(hostId)!, { $case: 'removed', value: { kind: 'operation', key: id } })
  }

  async removeHosts(): Promise<void> {
    for (const id of this.agents.keys()) await this.hosts.removeHost(id, { force: true })
  }

  findHost(id: string): HostView | undefined {
    return this.view.findHost(id)
  }

  #waitFor(hostId: string, state: string): Promise<unknown> {
    return waitFor(() => this.findHost(hostId)?.state === state, { what: `${hostId} ${state}` })
  }
}

const limits = {
  vcpuMilli: 500,
  ramMb: 512,
  diskGb: 10,
  networkDownMbps: 0,
  networkUpMbps: 0,
  ioReadMbps: 0,
  ioWriteMbps: 0,
}

interface NewHost {
  readonly id: string
  readonly authority: Authority
  readonly stateDir: string
  readonly agentConfig: Record<string, unknown>
}

/** Starts an agent with an identity as after a join. Other tests cover the join itself. */
async function startAgent({
  id,
  authority,
  stateDir,
  agentConfig,
}: NewHost): Promise<{ agent: LabAgent; record: HostRecord }> {
  const privateKeyPem = createPrivateKeyPem()
  const csr = await createCsrPem(privateKeyPem)
  const { certificatePem, serial, notAfterMs } = await authority.signRequest(csr, { role: 'agent', hostId: id }, leafMs)
  const identityDir = join(stateDir, `identity-${id}`)
  await writeIdentity(identityDir, { privateKeyPem, certificatePem, caPem: authority.caPem })
  const agent = await LabAgent.start({ identityDir, parallel: 0, config: agentConfig })
  const [publicAddress] = memoryAddresses.ipv4
  const record = { id, version: 1, name: id, address: agent.address, publicAddress, draining: false }
  const joined = { createdAtMs: Date.UTC(2026, 10, 1), serials: [serial], certificateNotAfterMs: notAfterMs }
  return { agent, record: { ...record, ...joined } }
}
