import type { PortMapping } from '../../proto/gen/berth/agent/v1/guest.js'
import type { StoredDocument } from '../store/document.js'
import type { GuestView } from './reported.js'

export interface PortRange {
  readonly start: number
  readonly end: number
}

/** A mapping that a guest gets, as an addition or instead of another mapping. */
export interface MappingOrder {
  readonly guest: GuestView
  readonly operationId: string
  readonly wanted: PortMapping
  /** True if the caller may see all guests, so that an error message can name the guest that has the port. */
  readonly mayName: boolean
}

/** Host ports that are unique in the fleet while the setting is on, so that guests keep them when they move. */
export interface UniquePorts {
  /** The setting. */
  readonly unique: StoredDocument<boolean>
  /** Range of host ports that all hosts permit. Undefined if no port is in all ranges. Hosts that report no range are ignored. */
  readonly commonRange: PortRange | undefined
  /** Returns the number of host ports that several guests have. */
  countDuplicates(): number
  /**
   * Returns random ports that no guest of the fleet has. Reserves nothing.
   * @throws {BerthError} `port_conflict`, `resource_exhausted`, `agent_outdated`
   */
  suggest(hostId: string, protocol: string, count: number): Promise<number[]>
  /**
   * Gives a guest a mapping. While the setting is on, reserves its host ports until all gateways show the change.
   * @param send sends the mapping to the host. Called again with other automatic ports if the host refuses these
   * @throws {BerthError} as `suggest`, `store_unavailable`, or the error of `send`
   */
  change<T>(order: MappingOrder, send: (mapping: PortMapping) => Promise<T>): Promise<T>
}
