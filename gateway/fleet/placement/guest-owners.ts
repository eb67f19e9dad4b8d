import type { Logger } from 'pino'
import type { Guest } from '../../../proto/gen/berth/agent/v1/guest.js'
import { Coalescer } from '../../../shared/async/coalescer.js'
import type { AgentFeature } from '../../../shared/agent-features.js'
import { steadyClock } from '../../../shared/steady-clock.js'
import type { HostState } from '../host-state.js'
import type { FleetState } from '../view.js'
import type { WatchEvent } from '../watch-kinds.js'
import type { GuestRegistry } from './guest-registry.js'
import type { GuestClaim, Reservation } from './plan-claims.js'

/** Age in ms above which a reservation cannot belong to a creation in progress. */
const graceMs = 120_000
/** Age in ms above which a rename cannot be in progress. A host can delay a rename until a task of the guest has ended. */
const renameMs = 3_600_000

export interface GuestOwnersParts {
  readonly view: FleetState
  readonly registry: GuestRegistry
  /** Lists the moves that have not ended. */
  readonly moves: { list(): Promise<readonly { readonly uuid: string }[]> }
  readonly log: Logger
}

type ReportedGuest = Pick<Guest, 'uuid' | 'id' | 'name' | 'ownership' | 'revision'>

/** Changes of guests that a host has reported and that are not in the store yet. */
interface HostChanges {
  /** Waiting changes by uuid of the guest. True: the host has removed the guest. */
  readonly waiting: Map<string, boolean>
  readonly rounds: Coalescer
}

/** Updates guests' ids and names in the store from the reports of all hosts, and keeps them unique in the fleet. */
export class GuestOwners {
  readonly #changes = new WeakMap<HostState, HostChanges>()

  constructor(private readonly parts: GuestOwnersParts) {}

  /** Claims ids and names for a host's guests. The fleet view hides guests with an id or name of another guest. */
  async check(host: HostState, guests: readonly ReportedGuest[], epoch = host.epoch): Promise<void> {
    const { registry, view, log } = this.parts
    const claims = guests.map((guest) => claimOf(guest, epoch))
    const refused = await registry.claim(host.record.id, claims)
    for (const guest of guests) {
      const { reason, ownerGeneration } = refused.get(guest.uuid) ?? {}
      view.disown(host, guest.uuid, reason)
      if (ownerGeneration === undefined || !mayInform(host, guest)) host.outdated.delete(guest.uuid)
      else host.outdated.set(guest.uuid, ownerGeneration)
    }
    const reasons = [...refused.values()].map(({ reason }) => reason)
    if (reasons.length > 0)
      log.warn(
        { host: host.record.id, refused: reasons.slice(0, 20) },
        'guests that a host reported are not shown: other guests have their ids or names, or other hosts own them',
      )
  }

  /** Writes ids, names and states of a host's guests to the store again if the store has lost them. */
  async restore(host: HostState): Promise<void> {
    const known = [...host.guests.values(), ...host.conflicts.values()].map(({ guest }) => guest)
    for (const { uuid } of known) this.parts.view.unsavedGuests.add({ hostId: host.record.id, uuid })
    await this.check(host, known)
  }

  /**
   * Updates the store after a report about a guest, which the view must contain already. A later report or sweep repairs
   * a failure. Each host has at most one transaction in progress, because a hostile host can send many reports.
   * Never rejects.
   */
  guestChanged(host: HostState, event: WatchEvent): Promise<void> {
    const { waiting, rounds } = this.#changesOf(host)
    if (event.$case === 'guest') waiting.set(event.value.uuid, false)
    if (event.$case === 'removed') waiting.set(event.value.key, true)
    return rounds.run()
  }

  #changesOf(host: HostState): HostChanges {
    const known = this.#changes.get(host)
    if (known) return known
    const waiting = new Map<string, boolean>()
    const made = { waiting, rounds: new Coalescer(() => this.#store(host, waiting)) }
    this.#changes.set(host, made)
    return made
  }

  async #store(host: HostState, waiting: Map<string, boolean>): Promise<void> {
    const removed = [...waiting].flatMap(([uuid, isRemoved]) => (isRemoved ? [uuid] : []))
    // Guests that the view lacks are skipped, because their reports were rejected as invalid.
    const shown = [...waiting.keys()].flatMap((uuid) => host.guests.get(uuid) ?? host.conflicts.get(uuid) ?? [])
    waiting.clear()
    try {
      // A new guest may have the name of a removed one, so names are released before they are claimed.
      await this.parts.registry.release(host.record.id, removed)
      if (shown.length > 0)
        await this.check(
          host,
          shown.map(({ guest }) => guest),
        )
    } catch (error) {
      this.parts.log.warn(
        { host: host.record.id, error },
        'changes of guests could not be written to the store; trying again later',
      )
    }
  }

  /** Frees the names of deleted guests. After a failure, a later sweep frees them. Never rejects. */
  async releaseGone(host: HostState, uuids: readonly string[]): Promise<void> {
    const { registry, log } = this.parts
    try {
      await registry.release(host.record.id, uuids)
    } catch (error) {
      log.warn(
        { host: host.record.id, error },
        'the reserved names and ids of deleted guests could not be released; trying again later',
      )
    }
  }

  /**
   * Frees old reservations whose guest no host reports. Never rejects.
   * @param callTimeoutMs maximum duration of a creation; reservations must be older than this and `graceMs` together
   */
  async sweep(callTimeoutMs: number): Promise<void> {
    const { registry, moves, log } = this.parts
    try {
      // Reservations of moving guests stay, because the target does not report the guest before the end of the move.
      const moving = new Set((await moves.list()).map(({ uuid }) => uuid))
      const freed = await registry.sweep(
        ({ hostId, uuid }) => moving.has(uuid) || this.#mayExist(hostId, uuid),
        steadyClock.earliest() - graceMs - callTimeoutMs,
        (held) => this.#isStuck(held, steadyClock.earliest() - renameMs),
        ({ hostId }) => this.parts.view.findState(hostId) !== undefined,
      )
      if (freed.length > 0)
        log.info({ freed: freed.map(({ name }) => name) }, 'reservations without a guest were removed')
    } catch (error) {
      log.debug({ error }, 'could not remove unused reservations')
    }
  }

  /** True if `newName` was reserved before `beforeMs`, but the host still reports another name of the guest. */
  #isStuck({ hostId, uuid, newName, renamedAtMs = 0 }: Reservation, beforeMs: number): boolean {
    if (newName === undefined || renamedAtMs >= beforeMs) return false
    const host = this.parts.view.findState(hostId)
    const shown = host?.online ? host.guests.get(uuid) : undefined
    return shown !== undefined && shown.guest.name !== newName
  }

  /** True if the guest possibly exists, because its host reports it or is offline. */
  #mayExist(hostId: string, uuid: string): boolean {
    const host = this.parts.view.findState(hostId)
    return host !== undefined && (!host.online || host.guests.has(uuid) || host.conflicts.has(uuid))
  }
}

/**
 * True if the host may be informed that another host owns the guest. An older agent would delete a disk that it has handed
 * over, which is possibly the newest one.
 */
function mayInform({ description }: HostState, { ownership }: ReportedGuest): boolean {
  const feature: AgentFeature = 'keep-copy'
  return ownership?.role !== 'handed_over' || description?.features.includes(feature) === true
}

function claimOf({ uuid, id, name, ownership, revision }: ReportedGuest, epoch: string): GuestClaim {
  const claim = { uuid, id, name, reportedAt: { epoch, revision } }
  if (!ownership) return claim
  const isOwner = ownership.role === 'owner' || ownership.role === 'leaving'
  return { ...claim, generation: ownership.generation, isOwner }
}
