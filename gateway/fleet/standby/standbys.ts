import type { Logger } from 'pino'
import type { StandbyCopy } from '../../../proto/gen/berth/agent/v1/move.js'
import { addAllocation, findExceeded, noAllocation, type Ratios } from '../../../shared/allocation.js'
import { BerthError, describeError, notFound } from '../../../shared/errors.js'
import type { AgentClient } from '../agent-contract.js'
import type { GuestView, HostView } from '../contract.js'
import type { StandbyAdmin, StandbyRef, StandbySettings, UsableStandby } from '../move-contract.js'
import type { MoveStore } from '../moves/move-store.js'
import { requireFeature } from '../require-feature.js'
import type { FleetState } from '../view.js'
import type { WatchedHosts } from '../watched-hosts.js'
import { findUsable } from './plan-standbys.js'
import type { StandbyStore } from './standby-store.js'

export interface StandbysOptions {
  readonly view: FleetState
  readonly watched: Pick<WatchedHosts, 'agent'>
  readonly moves: Pick<MoveStore, 'readGeneration'>
  readonly standbyStore: Pick<StandbyStore, 'find' | 'put' | 'replace'>
  readonly ratios: Ratios
  readonly log: Logger
}

/** Checks warm standbys, and finds and removes their copies. `StandbyKeeper` orders the increments. */
export class Standbys implements StandbyAdmin {
  constructor(private readonly options: StandbysOptions) {}

  async refuseUnfit(guest: GuestView, hostId: string): Promise<void> {
    if (guest.guest.virtualization === 'kvm')
      throw new BerthError('invalid', 'unsupported', 'only LXC containers can have a warm standby')
    const field = { field: 'host_id' }
    if (hostId === guest.hostId)
      throw new BerthError(
        'invalid',
        'invalid_field',
        'host_id: the container is on this host: name another one',
        field,
      )
    const host = this.options.view.findHost(hostId)
    if (!host) throw notFound('host')
    const own = this.options.view.findHost(guest.hostId)
    if (own) requireFeature(own, 'standby')
    if (guest.guest.standby?.hostId !== hostId) this.#refuseFull(guest, host)
    await this.expect(guest, { standbyId: guest.guest.uuid, host, dryRun: true })
  }

  /** @throws {BerthError} `resource_exhausted` if the host has too little unallocated disk space */
  #refuseFull({ guest }: GuestView, { id, name, description }: HostView): void {
    const { view, ratios } = this.options
    const wanted = { ...noAllocation, diskGb: guest.limits?.diskGb ?? 0 }
    const allocated = addAllocation(view.allocationOf(id), wanted)
    const exceeded = findExceeded(allocated, description?.capacity, { cpu: 0, ram: 0, disk: ratios.disk })
    if (exceeded === undefined) return
    const message = `host ${name} does not have enough unallocated disk space for the copy`
    throw new BerthError('exhausted', 'resource_exhausted', message, { field: 'host_id' })
  }

  /**
   * Prepares a host for the copy of a guest. With `dryRun`, only checks this.
   * @throws {BerthError} `host_offline`, `agent_outdated`, or an error of the host
   */
  async expect(
    { hostId: fromHostId, guest }: GuestView,
    { standbyId, host, dryRun }: { readonly standbyId: string; readonly host: HostView; readonly dryRun: boolean },
  ): Promise<void> {
    if (host.state !== 'online') throw new BerthError('unavailable', 'host_offline', `host ${host.name} is offline`)
    requireFeature(host, 'standby')
    const { uuid, limits } = guest
    const generation = await this.options.moves.readGeneration(uuid)
    const request = { standbyId, uuid, generation, fromHostId, diskGb: limits?.diskGb ?? 0, dryRun }
    await this.agent(host.id).moves.expectStandby(request)
  }

  async record({ hostId: fromHostId, guest }: GuestView, standby: StandbySettings): Promise<void> {
    await this.options.standbyStore.put(guest.uuid, { ...standby, fromHostId })
  }

  findRecorded(uuid: string): Promise<StandbySettings | undefined> {
    return this.options.standbyStore.find(uuid)
  }

  /** Removes the record first: a gateway would set the standby again if the record stayed after the change. */
  async withdraw(uuid: string, change: () => Promise<void>): Promise<void> {
    const { standbyStore } = this.options
    const stored = await standbyStore.find(uuid)
    if (stored) await standbyStore.replace(uuid, stored.standbyId, undefined)
    try {
      await change()
    } catch (error) {
      // If this fails, too, the keeper of standbys reports the standby as failed.
      if (stored) await standbyStore.replace(uuid, undefined, stored).catch(() => undefined)
      throw error
    }
  }

  /** Removes the copy of a standby. If this fails, the keeper of standbys removes it later. */
  async forget(uuid: string, { standbyId, hostId }: StandbyRef): Promise<void> {
    try {
      if (this.hasFeature(hostId)) await this.agent(hostId).moves.removeStandby({ uuid, standbyId })
    } catch (error) {
      this.options.log.info({ guest: uuid, host: hostId, reason: describeError(error) }, keptText)
    }
  }

  /** Lists the copies on a host. Returns [] if the host is offline or its agent is too old. */
  async listCopies(hostId: string): Promise<readonly StandbyCopy[]> {
    if (!this.hasFeature(hostId)) return []
    return (await this.agent(hostId).moves.listStandbys({})).copies
  }

  /** Finds the copies from which guests of a failed host can be started, by uuid of the guest. */
  async findUsable(guests: readonly GuestView[]): Promise<Map<string, UsableStandby>> {
    const hostIds = new Set(guests.flatMap(({ guest }) => guest.standby?.hostId ?? []))
    const copies = new Map(
      await Promise.all([...hostIds].map(async (id) => [id, await this.#listQuietly(id)] as const)),
    )
    return new Map(
      guests.flatMap((view) => {
        const found = findUsable(view, copies.get(view.guest.standby?.hostId ?? '') ?? [], Date.now())
        return found ? [[view.guest.uuid, found] as const] : []
      }),
    )
  }

  /** A host whose copies are not known counts as one without copies, so that backups are used. */
  async #listQuietly(hostId: string): Promise<readonly StandbyCopy[]> {
    try {
      return await this.listCopies(hostId)
    } catch (error) {
      this.options.log.warn({ host: hostId, reason: describeError(error) }, 'could not list the copies of standbys')
      return []
    }
  }

  hasFeature(hostId: string): boolean {
    const host = this.options.view.findHost(hostId)
    return host?.state === 'online' && (host.description?.features.includes('standby') ?? false)
  }

  agent(hostId: string): AgentClient {
    return this.options.watched.agent(hostId)
  }
}

const keptText = 'the copy of a standby could not be removed yet; trying again later'

/** @throws {BerthError} `not_found` */
export function getStandby({ guest }: GuestView) {
  if (guest.standby) return guest.standby
  throw notFound('standby of this container')
}
