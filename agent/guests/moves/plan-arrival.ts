import type { CheckedMapping } from '../../../shared/port-mapping-rules.js'
import type { PortMapping } from '../record/record.js'

/** A mapping on the source, and the mapping that replaces it on the target. */
export interface MovedMapping {
  readonly from: PortMapping
  readonly to: PortMapping
}

/** Facts about the addresses and ports of the target host. */
export interface PortFacts {
  /** True if the target has this address and is allowed to map its ports. */
  readonly hasAddress: (hostIp: string) => boolean
  /** Takes the host ports of the mapping if they are free. @returns true if they were free */
  readonly tryTake: (mapping: CheckedMapping) => boolean
}

/**
 * Plans mappings for the target. A mapping keeps its host port if this port is free. Otherwise its host port is 0,
 * which means any free port.
 * @param reserved mappings that were reserved when the move began; their host ports take precedence
 */
export function planMappings(
  wanted: readonly CheckedMapping[],
  reserved: readonly MovedMapping[],
  { hasAddress, tryTake }: PortFacts,
): CheckedMapping[] {
  return wanted.map((mapping) => {
    const known = reserved.find(({ from }) => isSame(from, mapping))?.to
    const hostIp = hasAddress(mapping.hostIp) ? mapping.hostIp : ''
    const at = known ? { ...mapping, hostIp: known.hostIp, ...portsOf(known) } : { ...mapping, hostIp }
    return tryTake(at) ? at : { ...at, hostPort: 0, hostPortEnd: 0 }
  })
}

/** Returns the addresses in the order of `before`. Addresses in `chosen` replace those that the guest does not keep. */
export function planAddresses(before: readonly string[], kept: readonly string[], chosen: readonly string[]): string[] {
  const stays = new Set(kept)
  const fresh = [...chosen]
  return before.map((address) => (stays.has(address) ? address : fresh.shift()!))
}

function portsOf({ hostPort, hostPortEnd }: PortMapping): Pick<PortMapping, 'hostPort' | 'hostPortEnd'> {
  return { hostPort, hostPortEnd }
}

function isSame(one: PortMapping, other: CheckedMapping): boolean {
  const keys = ['protocol', 'hostIp', 'hostPort', 'hostPortEnd', 'containerPort', 'containerPortEnd'] as const
  return keys.every((key) => one[key] === other[key])
}
