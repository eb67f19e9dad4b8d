import type { GuestCreation } from './creation-contract.js'
import type { GuestCache } from './guest-cache.js'
import { isEnded } from './lists/operation-table.js'
import type { GuestOwners } from './placement/guest-owners.js'
import { findReported } from './reported-guests.js'
import type { FleetState } from './view.js'

export interface CreatedGuestsOptions {
  readonly view: FleetState
  readonly owners: Pick<GuestOwners, 'check'>
  readonly cache: Pick<GuestCache, 'keep'>
  readonly callTimeoutMs: number
}

/** Shows guests in the view as soon as an agent has accepted their creation. */
export class CreatedGuests {
  constructor(private readonly options: CreatedGuestsOptions) {}

  /** Resolves when the view and the store contain the guest. The store needs it in case the guest's host fails. */
  async show(creation: GuestCreation, operationId: string): Promise<void> {
    await this.#reported(creation, operationId)
    await this.#add(creation, operationId)
    // Stores the guest before the client gets the answer, in case this gateway and the guest's host fail.
    const { guest } = creation.response
    if (guest) await this.options.cache.keep(creation.hostId, guest)
  }

  /**
   * Waits until the view contains a new guest. Waiting for the revision of the creation is not enough, because a busy
   * host combines several changes of a guest in one report with a later revision.
   */
  async #reported({ hostId, response: { guest } }: GuestCreation, operationId: string): Promise<void> {
    if (!guest) return
    const { view, callTimeoutMs } = this.options
    const isOver = (): boolean => {
      const host = view.findState(hostId)
      const task = view.findOperation(operationId)?.operation
      return !host?.online || findReported(host, guest.uuid) !== undefined || (task !== undefined && isEnded(task))
    }
    await view.hostChanged.wait(hostId, callTimeoutMs, isOver)
  }

  /** Adds a created guest to the view, if the guest's host went offline before it could report the guest. */
  async #add({ hostId, response }: GuestCreation, operationId: string): Promise<void> {
    const { view, owners } = this.options
    const { guest, operation, revision } = response
    const host = view.findState(hostId)
    if (!host || host.revision >= revision) return
    if (guest) await owners.check(host, [guest])
    // A newer state of the guest or the operation, which the host has reported already, must not be replaced.
    if (host.revision >= revision) return
    if (guest) view.apply(host, { $case: 'guest', value: guest })
    if (operation?.id === operationId) view.apply(host, { $case: 'operation', value: operation })
  }
}
