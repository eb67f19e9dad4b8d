import { keyOf, setOf } from './plan-change.js'
import type { ElementId } from './plan-guest.js'

/** The host ports of an nft element that belongs to a mapping. */
export interface MappedPorts {
  readonly set: string
  /** Host address or network in the key of the element. '' if keys in this set have no address. */
  readonly host: string
  readonly protocol: string
  readonly first: number
  readonly last: number
}

export function isRange(id: ElementId): boolean {
  return setOf(id) === 'port_ranges' || setOf(id) === 'port_ranges6'
}

export function parsePorts(id: ElementId): MappedPorts {
  const [ports = '', protocol = '', host = ''] = keyOf(id).split(' . ').toReversed()
  const [first, last = first] = ports.split('-').map(Number)
  return { set: setOf(id), host, protocol, first: first ?? 0, last: last ?? 0 }
}

/** True if the ports of an element overlap one of these ranges in the same set. */
export function overlapsAny(id: ElementId, ranges: readonly MappedPorts[]): boolean {
  const held = parsePorts(id)
  return ranges.some(
    (range) =>
      range.set === held.set &&
      range.protocol === held.protocol &&
      (range.host === held.host || range.host.includes('/') || held.host.includes('/')) &&
      range.first <= held.last &&
      held.first <= range.last,
  )
}
