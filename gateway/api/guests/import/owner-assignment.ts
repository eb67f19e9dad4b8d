import type { Logger } from 'pino'
import type { FleetView } from '../../../fleet/contract.js'
import type { NewGuestIds } from '../../../fleet/creation-contract.js'
import type { InitialSettings } from '../create/initial-settings.js'

export interface OwnerAssignmentParts {
  readonly initial: Pick<InitialSettings, 'prepare' | 'revert'>
  readonly view: Pick<FleetView, 'findGuest'>
  readonly log: Pick<Logger, 'warn'>
}

/** Gives the container of an import to its owner. Each attempt on another host can have another uuid. */
export class OwnerAssignment {
  readonly #assigned = new Map<string, NewGuestIds>()

  constructor(private readonly parts: OwnerAssignmentParts) {}

  async assign(guest: NewGuestIds): Promise<void> {
    const { prepare } = this.parts.initial
    if (!prepare) return
    this.#assigned.set(guest.uuid, guest)
    await prepare(guest)
  }

  /** Takes away from the owner all containers that do not exist because their creation has failed. Never rejects. */
  async revert(): Promise<void> {
    const { initial, view, log } = this.parts
    for (const guest of this.#assigned.values()) {
      if (view.findGuest(guest.uuid)) continue
      await initial
        .revert?.(guest)
        .catch((error: unknown) =>
          log.warn({ error, uuid: guest.uuid }, 'a container that was not created still belongs to its owner'),
        )
    }
  }
}
