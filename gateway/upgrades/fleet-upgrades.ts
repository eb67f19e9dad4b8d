import { BerthError, conflict, describeError, toBerthError } from '../../shared/errors.js'
import { StaleEpochError } from '../../shared/fence.js'
import { UnansweredError } from '../../shared/grpc-errors.js'
import type { Fleet, HostView } from '../fleet/contract.js'
import { StoredDocument } from '../store/document.js'
import type { Lease } from '../store/lease.js'
import { LeasedWorker, type LeasedWorkerOptions } from '../store/leased-worker.js'
import { isActive, type FleetRun, type RunHost } from './fleet-run.js'
import { planCommand, refuseSecondRun, type RunCommand } from './plan-command.js'
import { completeHost, planRun, refuseHost, type RunHostFacts } from './plan-run.js'

export type FleetUpgradesOptions = LeasedWorkerOptions

export interface RunRequest {
  readonly id: string
  readonly parallel: number
  /** Host that is upgraded before all other hosts. Default: the first host by name that can be upgraded. */
  readonly canaryHostId?: string | undefined
  readonly startedBy: string
}

/**
 * Upgrades all hosts, a few at a time. The store contains the state, which only one gateway at a time changes. Create
 * the object before `store.start()`.
 */
export class FleetUpgrades {
  readonly #run: StoredDocument<FleetRun | null>
  readonly #worker: LeasedWorker

  constructor(private readonly options: FleetUpgradesOptions) {
    const { store, log } = options
    this.#run = new StoredDocument<FleetRun | null>({ store, name: 'fleet-upgrade', initial: null, log })
    this.#worker = new LeasedWorker(options, 'fleet-upgrade-worker', 'continue the upgrade of the fleet')
  }

  /** The last run; null: there was no run. Throws `store_unavailable` until the store has been read. */
  get current(): FleetRun | null {
    return this.#run.current
  }

  /** True after the store has been read. */
  get isKnown(): boolean {
    return this.#run.value !== undefined
  }

  /** The gateway that holds this lease advances the upgrade. All other gateways only read its state. */
  get lease(): Lease {
    return this.#worker.lease
  }

  start(fleet: Fleet): void {
    this.#worker.start(() => this.#work(fleet))
  }

  async close(): Promise<void> {
    await this.#worker.close()
  }

  /**
   * Starts an upgrade of all hosts. A repeated call with the same id changes nothing.
   * @throws {BerthError} `upgrade_running`, `up_to_date`, `packages_missing`, `packages_outdated`, `not_found` or
   * `invalid_state` for the canary
   */
  async begin(fleet: Fleet, request: RunRequest): Promise<FleetRun> {
    if (this.current?.id === request.id) return this.current
    refuseSecondRun(this.current)
    await fleet.upgrades.checkPackages()
    const run = newRun(fleet, request)
    const begun = await this.#run.update((old) => {
      refuseSecondRun(old)
      return run
    })
    return begun ?? run
  }

  /** @throws {BerthError} `invalid_state` */
  async command(command: RunCommand): Promise<FleetRun> {
    const run = await this.#run.update((old) => planCommand(old, command))
    return run!
  }

  async #work(fleet: Fleet): Promise<void> {
    // Before all hosts have been read from the store, missing hosts would count as removed.
    if (!fleet.isComplete) return
    // Without this wait, hosts that are about to connect would count as offline.
    await fleet.expectedConnections()
    if (!(await this.lease.take())) return
    await fleet.upgrades.endSilent(Date.now())
    const run = this.#run.value
    if (run && (isActive(run) || run.endedAtMs === 0)) await this.#advance(fleet)
  }

  async #advance(fleet: Fleet): Promise<void> {
    const { version } = fleet.upgrades
    const facts = { factsOf: (id: string) => factsOf(fleet.view.findHost(id)), version, nowMs: Date.now() }
    const planned = (run: FleetRun): FleetRun => planRun(run, facts)
    const before = this.#run.value
    if (!before) return
    const run = planned(before) === before ? before : await this.#change((old) => old && planned(old))
    const begun = run?.hosts.filter(({ state }) => state === 'upgrading') ?? []
    await Promise.all(begun.map((host) => this.#startHost(fleet, host, run!.version)))
  }

  /** Starts the upgrade of a host, unless this or another gateway has started it already. */
  async #startHost(fleet: Fleet, host: RunHost, version: string): Promise<void> {
    const { hostId, upgradeId, action } = host
    if (fleet.view.findHost(hostId)?.upgrade?.id === upgradeId) return
    try {
      const order = { id: upgradeId, rollback: action === 'rollback', version, fence: this.lease.fence }
      const started = await fleet.upgrades.start(hostId, order)
      if (started === 'up_to_date') await this.#change((run) => run && completeHost(run, host))
    } catch (error) {
      // The host knows a higher epoch, because another gateway holds the lease, or the store has lost the latest
      // epochs. The next epoch must be higher than the one that the host knows.
      if (error instanceof StaleEpochError) return this.lease.exceed(error.highest)
      // It is not known whether the upgrade began on the host. The next check starts it if necessary.
      if (error instanceof UnansweredError || isTemporary(error)) return
      this.options.log.warn({ host: hostId, reason: describeError(error) }, 'could not start the upgrade of a host')
      const { message } = toBerthError(error, 'the upgrade could not be started: see the log of the gateway')
      await this.#change((run) => run && refuseHost(run, host, message))
    }
  }

  /** Changes the stored upgrade of the fleet, unless another gateway has taken over the lease. */
  #change(change: (run: FleetRun | null) => FleetRun | null): Promise<FleetRun | null> {
    return this.#run.update(change, this.lease)
  }
}

/**
 * True for errors after which a later attempt can succeed without the operator. `upgrade_running`: another gateway has
 * started this upgrade, which the fleet view does not show yet, or somebody is upgrading only this host.
 */
function isTemporary(error: unknown): boolean {
  const temporary = ['store_unavailable', 'lease_lost', 'upgrade_running']
  return error instanceof BerthError && temporary.includes(error.code)
}

function factsOf(host: HostView | undefined): RunHostFacts | undefined {
  if (!host) return undefined
  const { description, state, upgrade } = host
  return {
    online: state === 'online',
    version: description?.version ?? '',
    upgradable: description?.features.includes('upgrade') ?? false,
    previousVersion: description?.previousVersion ?? '',
    upgrade,
  }
}

function newRun(fleet: Fleet, { id, parallel, canaryHostId, startedBy }: RunRequest): FleetRun {
  const { version } = fleet.upgrades
  const hosts = fleet.view.hosts().sort((a, b) => a.name.localeCompare(b.name, 'en'))
  const canary = chooseCanary(hosts, version, canaryHostId)
  return {
    id,
    state: 'running',
    action: 'upgrade',
    version,
    parallel,
    canaryHostId: canary.id,
    hosts: hosts.map(newHost),
    startedBy,
    startedAtMs: Date.now(),
    endedAtMs: 0,
  }
}

function newHost({ id, name, description }: HostView): RunHost {
  const from = description?.version ?? ''
  return { hostId: id, name, state: 'waiting', from, message: '', action: 'upgrade', upgradeId: '', attempts: 0 }
}

/** @throws {BerthError} `not_found`, `invalid_state`, `up_to_date`, `upgrade_unsupported` */
function chooseCanary(hosts: readonly HostView[], version: string, wanted: string | undefined): HostView {
  const canUpgrade = (host: HostView): boolean => {
    const facts = factsOf(host)
    return facts !== undefined && facts.online && facts.upgradable && facts.version !== version
  }
  if (wanted !== undefined)
    return checkCanary(
      hosts.find(({ id }) => id === wanted),
      canUpgrade,
    )
  const first = hosts.find(canUpgrade)
  if (first) return first
  if (hosts.every(({ description }) => description?.version === version))
    throw conflict('up_to_date', `all hosts have version ${version}`)
  throw conflict(
    'upgrade_unsupported',
    `no host can be upgraded: each one is offline, already has version ${version}, or has an agent that does not support upgrades by the gateway`,
  )
}

function checkCanary(canary: HostView | undefined, canUpgrade: (host: HostView) => boolean): HostView {
  if (!canary)
    throw new BerthError('invalid', 'invalid_field', 'canary_host_id: this host does not exist', {
      field: 'canary_host_id',
    })
  if (canUpgrade(canary)) return canary
  const message = `canary_host_id: ${canary.name} cannot be upgraded: it is offline, already has the version of this gateway, or has an agent that does not support upgrades by the gateway`
  throw new BerthError('conflict', 'invalid_state', message, { field: 'canary_host_id' })
}
