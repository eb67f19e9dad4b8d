import type { PortMapping } from '../../api/types.ts'

export type MappingChange = Partial<Omit<PortMapping, 'host_ip'>>

/** Content of the form for a port mapping. A mapping of several ports maps consecutive ports. */
export interface MappingForm {
  protocol: 'tcp' | 'udp'
  inner: number
  /** Host port. Null: a new mapping gets any free port, and an existing mapping keeps its port. */
  outer: number | null
  count: number
  note: string
}

export const emptyMapping: MappingForm = { protocol: 'tcp', inner: 80, outer: null, count: 1, note: '' }

export function formOf(mapping: PortMapping): MappingForm {
  const { protocol, container_port: inner, host_port: outer, host_port_end: end = outer, description: note } = mapping
  return { protocol, inner, outer, count: end - outer + 1, note }
}

/** Returns the body of a new mapping. */
export function newMapping({ protocol, inner, outer, count, note }: MappingForm) {
  const host_port = outer ?? 0
  const range = count > 1 ? { container_port_end: inner + count - 1 } : {}
  const hostRange = count > 1 && host_port > 0 ? { host_port_end: host_port + count - 1 } : {}
  return { protocol, container_port: inner, host_port, description: note, ...range, ...hostRange }
}

/** Returns only the changed fields. Customers are not allowed to send ports of the host, not even unchanged ones. */
export function mappingChange(mapping: PortMapping, form: MappingForm): MappingChange {
  const before = formOf(mapping)
  const { protocol, inner, outer, count, note } = form
  return {
    ...(protocol !== before.protocol && { protocol }),
    ...(inner !== before.inner && { container_port: inner }),
    ...(outer !== null && outer !== before.outer && { host_port: outer }),
    ...(count !== before.count && lastPorts(inner, outer ?? mapping.host_port, count)),
    ...(note !== before.note && { description: note }),
  }
}

function lastPorts(inner: number, outer: number, count: number): MappingChange {
  return { container_port_end: inner + count - 1, host_port_end: outer + count - 1 }
}
