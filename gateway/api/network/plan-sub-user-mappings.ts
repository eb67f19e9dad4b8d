import type { PortMapping } from '../../../proto/gen/berth/agent/v1/guest.js'
import { BerthError } from '../../../shared/errors.js'
import type { planMappingChange } from '../guests/create/plan-mappings.js'

/* Fields of port mappings that a sub-user may set: the target, but never the ports and addresses of the host. */

type MappingChange = ReturnType<typeof planMappingChange>

/** Fields as the API spells them. */
const names = {
  hostIp: 'host_ip',
  hostPort: 'host_port',
  hostPortEnd: 'host_port_end',
  containerPortEnd: 'container_port_end',
  protocol: 'protocol',
  description: 'description',
} as const
type Field = keyof typeof names

const hostSide = ['hostIp', 'hostPort', 'hostPortEnd'] as const
/** The end would change the number of ports. */
const fixed: readonly Field[] = [...hostSide, 'containerPortEnd']
const allButInner: readonly Field[] = [...fixed, 'protocol', 'description']

/** @throws {BerthError} `insufficient_scope` for a mapping whose host port or address was chosen */
export function refuseChosenSide(mapping: Pick<PortMapping, (typeof hostSide)[number]>): void {
  const chosen = hostSide.find((field) => isSaid(mapping[field]))
  if (chosen) throw notTheirs(chosen)
}

/**
 * Reduces a change to the fields that a sub-user may change; unchanged fields are permitted.
 * @param stored undefined: the mapping does not exist, which the agent reports
 * @param innerOnly permits only changes of the inner port
 * @throws {BerthError} `insufficient_scope` naming the field
 */
export function planSubUserMappings(
  wanted: MappingChange,
  stored: PortMapping | undefined,
  innerOnly: boolean,
): MappingChange {
  const closed = innerOnly ? allButInner : fixed
  const asIs = stored && { ...stored, containerPortEnd: endOf(stored, wanted.containerPort) }
  for (const field of closed) if (isSaid(wanted[field]) && wanted[field] !== asIs?.[field]) throw notTheirs(field)
  return { ...wanted, ...Object.fromEntries(closed.map((field) => [field, undefined])) }
}

/** The last inner port when the first one moves and the length stays. */
function endOf({ containerPort, hostPort, hostPortEnd }: PortMapping, moved = containerPort): number {
  return moved + hostPortEnd - hostPort
}

function isSaid(value: string | number | undefined): boolean {
  return value !== undefined && value !== '' && value !== 0
}

function notTheirs(field: Field): BerthError {
  const message = `${names[field]}: sub-users cannot choose it`
  return new BerthError('forbidden', 'insufficient_scope', message, { field: names[field] })
}
