import type { Logger } from 'pino'
import type { Guest } from '../../../proto/gen/berth/agent/v1/guest.js'
import { KeyedSingleFlight } from '../../../shared/async/single-flight.js'
import { describeError } from '../../../shared/errors.js'
import type { HostState } from '../host-state.js'
import type { GuestOwners } from '../placement/guest-owners.js'
import type { FleetState } from '../view.js'
import type { WatchedHosts } from '../watched-hosts.js'
import { isMovingAway } from './announcer.js'
import type { MoveStore } from './move-store.js'

export interface OwnerConfirmationsOptions {
  readonly view: FleetState
  readonly watched: Pick<WatchedHosts, 'agent'>
  readonly owners: Pick<GuestOwners, 'check'>
  readonly moves: Pick<MoveStore, 'list'>
  readonly log: Logger
}

/**
 * Informs each host that connects which of its guests belong to other hosts. After a boot, a host starts its guests
 * only when it has this information. Every gateway informs hosts, because some hosts are reachable from only one.
 * Hosts also learn whether the fleet has other hosts, and therefore how long they wait for a gateway after a boot.
 */
export class OwnerConfirmations {
  readonly #running = new KeyedSingleFlight<string>()
  /** Hosts whose last confirmation has failed. Their failure is logged once. */
  readonly #failing = new Set<string>()

  constructor(private readonly options: OwnerConfirmationsOptions) {}

  /** Begins confirmations for the online hosts that need one. The next call repeats failed confirmations. */
  work(): void {
    this.#hideFormer()
    const hosts = [...this.options.view.states()]
    const hasOtherHosts = hosts.filter(({ record }) => record.serials.length > 0).length > 1
    for (const host of hosts)
      if (needsConfirmation(host, hasOtherHosts))
        void this.#running.run(host.record.id, () => this.#confirm(host, hasOtherHosts))
  }

  /**
   * Checks guests of offline hosts that online hosts report, too. An online host restores or has restored such a guest,
   * perhaps on behalf of another gateway. Only a finished restore hides the guest on its former host. Otherwise, a
   * failed restore would look like the deletion of the guest.
   */
  #hideFormer(): void {
    const { view, owners } = this.options
    for (const { online, conflicts } of view.states())
      for (const [uuid, { guest }] of online ? conflicts : []) {
        if (guest.status === 'creating') continue
        const former = view.findGuest(uuid)
        const host = former && !former.online ? view.findState(former.hostId) : undefined
        if (former && host) void this.#running.run(uuid, () => recheck(view, owners, host, former.guest))
      }
  }

  async settled(): Promise<void> {
    await Promise.all(this.#running.keys.map((id) => this.#running.settled(id)))
  }

  async #confirm(host: HostState, hasOtherHosts: boolean): Promise<void> {
    const { watched, owners, moves: store, log } = this.options
    try {
      const reported = [...host.guests.values(), ...host.conflicts.values()].map(({ guest }) => guest)
      await owners.check(host, reported)
      const moves = await store.list()
      const others = [...host.outdated]
        .filter(([uuid]) => !isMovingAway(moves, uuid, host.record.id))
        .map(([uuid, generation]) => ({ uuid, generation }))
      await watched.agent(host.record.id).moves.confirmOwners({ others, hasOtherHosts })
      if (host.online) host.confirmation = { hasOtherHosts }
      this.#failing.delete(host.record.id)
    } catch (error) {
      if (!this.#failing.has(host.record.id))
        log.warn({ host: host.record.id, reason: describeError(error) }, unconfirmed)
      this.#failing.add(host.record.id)
    }
  }
}

const unconfirmed =
  'a host could not be informed which of its guests belong to other hosts; after a boot, it waits for this'

/** True if the host lacks a confirmation of owners on its present connection, or the fleet has changed since. */
function needsConfirmation({ online, confirmation, description }: HostState, hasOtherHosts: boolean): boolean {
  const isOutdated = confirmation?.hasOtherHosts !== hasOtherHosts
  return online && isOutdated && description?.features.includes('confirm-owners') === true
}

/** Compares a guest's host with its stored owner. This can change the view, so the guest is then stored again. */
export async function recheck(
  view: Pick<FleetState, 'unsavedGuests'>,
  owners: Pick<GuestOwners, 'check'>,
  host: HostState,
  guest: Guest,
): Promise<void> {
  try {
    await owners.check(host, [guest])
    view.unsavedGuests.add({ hostId: host.record.id, uuid: guest.uuid })
  } catch {
    // The store is down. The next call repeats the comparison.
  }
}
