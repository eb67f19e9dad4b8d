import { conflict, notFound, toBerthError } from '../../shared/errors.js'
import { StaleEpochError, type Fence } from '../../shared/fence.js'
import { UnansweredError } from '../../shared/grpc-errors.js'
import { isSilent, upgradeStateOf, type HostUpgrade } from '../join/host-upgrade.js'
import type { AgentClient } from './agent-contract.js'
import type { HostUpgrades, HostView, UpgradeRequest } from './contract.js'
import type { HostRecord } from './host-record.js'
import type { JoinTokens } from './join-tokens.js'
import { requireFeature } from './require-feature.js'
import type { FleetState } from './view.js'
import type { WatchedHosts } from './watched-hosts.js'

export interface HostUpgraderOptions {
  readonly view: FleetState
  readonly watched: WatchedHosts
  readonly tokens: JoinTokens
  readonly version: string
  /** host:port at which agents reach the join endpoint. */
  readonly joinAddress: () => string
  /** Version of the agent in the packages for hosts. @throws {BerthError} `packages_missing` */
  readonly packagedVersion: () => Promise<string>
}

/** Lifetime in ms of the token that an upgrade uses. It exceeds the time that a host allows for an installation. */
const tokenLifetimeMs = 2 * 3_600_000

/** Lets hosts install another version of their agent. */
export class HostUpgrader implements HostUpgrades {
  constructor(private readonly options: HostUpgraderOptions) {}

  get version(): string {
    return this.options.version
  }

  async start(hostId: string, { id, rollback, version, fence }: UpgradeRequest): Promise<'started' | 'up_to_date'> {
    const { view, watched } = this.options
    const host = view.findHost(hostId)
    if (!host) throw notFound('host')
    if (host.upgrade?.id === id) return 'started'
    const agent = watched.agent(hostId)
    requireFeature(host, 'upgrade')
    const from = host.description?.version ?? ''
    const to = rollback ? previousOf(host) : (version ?? this.version)
    if (from === to) return 'up_to_date'
    if (!rollback) await this.checkPackages(to)
    const nowMs = Date.now()
    const times = { startedAtMs: nowMs, atMs: nowMs }
    const upgrade: HostUpgrade = { id, from, to, rollback, step: 'starting', message: '', ...times }
    await watched.update(hostId, (record) => begin(record, upgrade))
    await this.#order(agent, hostId, upgrade, fence).catch(async (error: unknown) => {
      if (error instanceof StaleEpochError) await this.#takeBack(hostId, upgrade, host.upgrade)
      throw error
    })
    return 'started'
  }

  async checkPackages(version = this.version): Promise<void> {
    const packaged = await this.options.packagedVersion()
    if (packaged === version) return
    const reason =
      version === this.version
        ? `this gateway has ${version}: install the package berth-repository of version ${version} on the machine of the gateway`
        : `this upgrade installs version ${version}: the gateway itself was changed to version ${this.version} after the upgrade began`
    throw conflict('packages_outdated', `the packages for hosts have version ${packaged}, but ${reason}`)
  }

  async endSilent(nowMs: number): Promise<void> {
    for (const { id, upgrade, state, description } of this.options.view.hosts()) {
      if (!upgrade || !isSilent(upgrade, nowMs)) continue
      // If the host has the new version, only the script's last report was lost, for example in a restart of the host.
      if (state === 'online' && description?.version === upgrade.to) {
        await this.#end(id, upgrade, { step: 'done', message: '' })
        continue
      }
      const reason = upgrade.step === 'starting' ? this.#unreachable : `${silent}${upgrade.step}`
      const message = `${reason}: journalctl -u berth-upgrade on the host shows more`
      await this.#end(id, upgrade, { step: 'failed', message })
    }
  }

  get #unreachable(): string {
    return `the host did not report the start of the installation: the host must be able to connect to ${this.options.joinAddress()}`
  }

  async #order(agent: AgentClient, hostId: string, upgrade: HostUpgrade, fence?: Fence): Promise<void> {
    const address = this.options.joinAddress()
    const lifetime = { lifetimeMs: tokenLifetimeMs, upgradeId: upgrade.id }
    const token = this.options.tokens.createForUpgrade(hostId, { address, ...lifetime })
    try {
      await agent.hosts.upgradeAgent({ address, token, version: upgrade.to, rollback: upgrade.rollback }, fence)
    } catch (error) {
      if (error instanceof StaleEpochError) throw error
      // If a call was sent but not answered, the upgrade has possibly begun. The host then reports its progress.
      if (!(error instanceof UnansweredError && error.left)) {
        await this.#end(hostId, upgrade, {
          step: 'failed',
          message: toBerthError(error, 'the host did not accept the upgrade: see the log of the gateway').message,
        })
      }
      throw error
    }
  }

  /** Puts the previous upgrade back into the host's record, because another gateway now runs the fleet upgrade. */
  async #takeBack(hostId: string, { id, atMs }: HostUpgrade, before: HostUpgrade | undefined): Promise<void> {
    await this.options.watched.update(hostId, (record) => {
      const isUnchanged = record.upgrade?.id === id && record.upgrade.atMs === atMs
      return isUnchanged ? { ...record, upgrade: before } : record
    })
  }

  /** Stores the end of an upgrade, unless the host has reported about its upgrade in the meantime. */
  async #end(hostId: string, upgrade: HostUpgrade, end: Pick<HostUpgrade, 'step' | 'message'>): Promise<void> {
    await this.options.watched.update(hostId, (record) => {
      if (record.upgrade?.id !== upgrade.id || record.upgrade.atMs !== upgrade.atMs) return record
      return { ...record, upgrade: { ...record.upgrade, ...end } }
    })
  }
}

const silent = 'the host stopped reporting in the step '

/** @throws {BerthError} `upgrade_running` */
function begin(record: HostRecord, upgrade: HostUpgrade): HostRecord {
  if (record.upgrade && upgradeStateOf(record.upgrade) === 'running')
    throw conflict('upgrade_running', `the agent of ${record.name} is being upgraded already`)
  return { ...record, upgrade }
}

/** @throws {BerthError} `no_previous_version` */
function previousOf({ name, description }: HostView): string {
  const previous = description?.previousVersion ?? ''
  if (previous !== '') return previous
  throw conflict(
    'no_previous_version',
    `the agent of ${name} cannot be rolled back: the host retains no packages of a previous version`,
  )
}
