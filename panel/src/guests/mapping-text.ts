import type { PortMapping } from '../api/types.ts'

/** Formats ports of a mapping: one port, or a range. */
export function portRange(from: number, to: number | undefined): string {
  return to === undefined ? String(from) : `${from}–${to}`
}

/** Formats a mapping: `192.0.2.7:30000–30009 → 8000–8009 UDP`. */
export function mappingText(mapping: PortMapping): string {
  const address = mapping.host_ip === undefined ? '' : `${mapping.host_ip}:`
  const outside = portRange(mapping.host_port, mapping.host_port_end)
  const inside = portRange(mapping.container_port, mapping.container_port_end)
  return `${address}${outside} → ${inside} ${mapping.protocol.toUpperCase()}`
}
