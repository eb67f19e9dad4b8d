import type { PortMapping } from '../../../proto/gen/berth/agent/v1/guest.js'
import { BerthError } from '../../../shared/errors.js'
import type { planMappingChange } from '../guests/create/plan-mappings.js'

/* Sub-users may choose the target of a port mapping, but not the ports and addresses of the host. */

type MappingChange = ReturnType<typeof planMappingChange>

/** Names of the fields in the API. */
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
/** Fields that sub-users may not choose. With `containerPortEnd`, they could change the number of mapped ports. */
const fixed: readonly Field[] = [...hostSide, 'containerPortEnd']
const allButInner: readonly Field[] = [...fixed, 'protocol', 'description']

/** @throws {BerthError} `insufficient_scope` if the request chooses the host port or address of a mapping */
export function refuseChosenSide(mapping: Pick<PortMapping, (typeof hostSide)[number]>): void {
  const chosen = hostSide.find((field) => isSaid(mapping[field]))
  if (chosen) throw notTheirs(chosen)
}

/**
 * Reduces a change of a port mapping to the fields that a sub-user may change. Rejects new values of other fields.
 * @param stored the present mapping; undefined: it does not exist, so the agent will reject the change
 * @param innerOnly true: only the container port may change
 * @throws {BerthError} `insufficient_scope` with the name of the field
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

/** Returns the last container port if a mapping keeps its number of ports. @param moved the new first container port */
function endOf({ containerPort, hostPort, hostPortEnd }: PortMapping, moved = containerPort): number {
  return moved + hostPortEnd - hostPort
}

function isSaid(value: string | number | undefined): boolean {
  return value !== undefined && value !== '' && value !== 0
}

function notTheirs(field: Field): BerthError {
  const message = `${names[field]}: sub-users cannot choose this value`
  return new BerthError('forbidden', 'insufficient_scope', message, { field: names[field] })
}
