import { BerthError } from '../../shared/errors.js'
import type { Fleet } from './contract.js'
import type { GuestRegistry } from './placement/guest-registry.js'
import type { FleetState } from './view.js'
import type { WatchedHosts } from './watched-hosts.js'

interface UnreportedParts {
  readonly view: FleetState
  readonly registry: GuestRegistry
  readonly watched: WatchedHosts
}

/** Finds guests that the fleet view lacks, by their reservation in the store. */
export class UnreportedGuests {
  constructor(private readonly parts: UnreportedParts) {}

  /** See `Fleet.findUnreported`. */
  async find(ref: string): ReturnType<Fleet['findUnreported']> {
    const { registry, view } = this.parts
    const reserved = await registry.find(ref)
    const host = reserved && view.findHost(reserved.hostId)
    if (!host) return undefined
    const exists = host.state !== 'online' || (await this.#hasGuest(host.id, reserved.uuid))
    return exists ? { uuid: reserved.uuid, hostName: host.name } : undefined
  }

  /** Asks a host whether it has a guest. @throws {BerthError} `host_offline`, `agent_timeout` */
  async #hasGuest(hostId: string, uuid: string): Promise<boolean> {
    try {
      await this.parts.watched.agent(hostId).guests.getGuestUsage({ uuid })
      return true
    } catch (error) {
      if (error instanceof BerthError && error.kind === 'not_found') return false
      throw error
    }
  }
}
