import { checkPortMapping } from '../../shared/port-mapping-rules.js'
import { checked, InvalidValue, listOf, oneOf, parseObject, text, whole, type Form, type Parts } from './forms.js'

/* Port mappings of guests. */

/** A port mapping in its canonical form. If the host port is 0, Berth chooses it. */
export interface Mapping {
  readonly protocol: 'tcp' | 'udp'
  readonly guestPort: number
  readonly guestPortEnd: number
  readonly hostPort: number
  readonly hostPortEnd: number
  /** Address of the host. Empty: every address of the host. */
  readonly hostIp: string
  readonly description: string
}

const mappingForms = {
  guest_port: whole,
  guest_port_end: whole,
  host_port: whole,
  host_port_end: whole,
  protocol: oneOf('tcp', 'udp'),
  host_ip: text,
  description: text,
} as const

interface WrittenMapping {
  readonly guest_port?: number
  readonly guest_port_end?: number
  readonly host_port?: number
  readonly host_port_end?: number
  readonly protocol?: string
  readonly host_ip?: string
  readonly description?: string
}

/** All port mappings of a guest. */
export const ports: Form = {
  parse: (value) => listOf(value, parseMapping),
  read: (value) => (value as MappingRow[]).map(mappingOfRow),
  write: (value) => (value as Mapping[]).map(writtenMapping),
  parts: (wanted, current) => partsOf(wanted as Mapping[], (current ?? []) as Mapping[]),
}

function parseMapping(value: unknown): Mapping {
  const written = parseObject(mappingForms, value) as WrittenMapping
  if (written.guest_port === undefined) throw new InvalidValue('guest_port is required')
  const { protocol, hostIp, description, ...numbers } = checkedMapping(written, written.guest_port)
  const { containerPort: guestPort, containerPortEnd: guestPortEnd, hostPort, hostPortEnd } = numbers
  return { protocol, guestPort, guestPortEnd, hostPort, hostPortEnd, hostIp, description }
}

function checkedMapping(written: WrittenMapping, guestPort: number) {
  const hostIp = written.host_ip === '0.0.0.0' || written.host_ip === '::' ? '' : (written.host_ip ?? '')
  const wanted = {
    protocol: written.protocol ?? 'tcp',
    hostIp,
    hostPort: written.host_port ?? 0,
    hostPortEnd: written.host_port_end ?? 0,
    containerPort: guestPort,
    containerPortEnd: written.guest_port_end ?? 0,
    description: written.description ?? '',
  }
  try {
    return checked(() => checkPortMapping(wanted))
  } catch (cause) {
    if (!(cause instanceof InvalidValue)) throw cause
    throw new InvalidValue(
      cause.message.replaceAll('container_port', 'guest_port'),
      cause.path.map((step) => String(step).replace('container_', 'guest_')),
    )
  }
}

/** A port mapping as the API shows it. */
interface MappingRow {
  readonly protocol: 'tcp' | 'udp'
  readonly container_port: number
  readonly container_port_end?: number
  readonly host_port: number
  readonly host_port_end?: number
  readonly host_ip?: string
  readonly description: string
}

function mappingOfRow(row: MappingRow): Mapping {
  return {
    protocol: row.protocol,
    guestPort: row.container_port,
    guestPortEnd: row.container_port_end ?? row.container_port,
    hostPort: row.host_port,
    hostPortEnd: row.host_port_end ?? row.host_port,
    hostIp: row.host_ip ?? '',
    description: row.description,
  }
}

function writtenMapping({ protocol, hostIp, description, ...mapping }: Mapping): object {
  const isRange = mapping.guestPortEnd > mapping.guestPort
  return {
    guest_port: mapping.guestPort,
    ...(isRange && { guest_port_end: mapping.guestPortEnd }),
    host_port: mapping.hostPort,
    ...(protocol !== 'tcp' && { protocol }),
    ...(hostIp !== '' && { host_ip: hostIp }),
    ...(description !== '' && { description }),
  }
}

/** Returns the body of a request that adds a mapping. */
export function mappingBody({ guestPort, guestPortEnd, hostPort, ...more }: Mapping): object {
  return {
    protocol: more.protocol,
    container_port: guestPort,
    container_port_end: guestPortEnd,
    host_port: hostPort,
    ...(hostPort !== 0 && { host_port_end: more.hostPortEnd }),
    ...(more.hostIp !== '' && { host_ip: more.hostIp }),
    description: more.description,
  }
}

function mappingText({ protocol, hostIp, description, ...mapping }: Mapping): string {
  const range = (first: number, end: number): string => (end > first ? `${first}-${end}` : String(first))
  const host = mapping.hostPort === 0 ? 'any free port' : range(mapping.hostPort, mapping.hostPortEnd)
  const place = hostIp === '' ? host : `${host} at ${hostIp}`
  const note = description === '' ? '' : ` (${description})`
  return `${protocol} ${place} → ${range(mapping.guestPort, mapping.guestPortEnd)}${note}`
}

/** A mapping of which only the description changes. */
interface DescriptionChange {
  readonly index: number
  readonly description: string
}

export interface MappingDifference {
  readonly added: readonly Mapping[]
  /** Positions of the mappings to remove, in the list of present mappings. */
  readonly removed: readonly number[]
  readonly renamed: readonly DescriptionChange[]
}

/** Compares mappings. A wanted mapping without a host port matches a present mapping with any host port. */
export function compareMappings(wanted: readonly Mapping[], current: readonly Mapping[]): MappingDifference {
  const free = new Set(current.keys())
  const pairs = bestFirst(wanted, current).map((mapping) => {
    const index = [...free].find((one) => fits(mapping, current[one]!))
    if (index !== undefined) free.delete(index)
    return { mapping, index }
  })
  return {
    added: pairs.filter(({ index }) => index === undefined).map(({ mapping }) => mapping),
    removed: [...free],
    renamed: pairs.flatMap(({ mapping: { description }, index }) =>
      index !== undefined && current[index]!.description !== description ? [{ index, description }] : [],
    ),
  }
}

/** Puts mappings with a host port first, as each fits only one present mapping. Known descriptions precede new ones. */
function bestFirst(wanted: readonly Mapping[], current: readonly Mapping[]): Mapping[] {
  const score = (mapping: Mapping): number =>
    (mapping.hostPort === 0 ? 2 : 0) + (current.some(({ description }) => description === mapping.description) ? 0 : 1)
  return wanted.toSorted((a, b) => score(a) - score(b))
}

function fits(wanted: Mapping, current: Mapping): boolean {
  const isHostPort =
    wanted.hostPort === 0 || (wanted.hostPort === current.hostPort && wanted.hostPortEnd === current.hostPortEnd)
  const fields = ['protocol', 'hostIp', 'guestPort', 'guestPortEnd'] as const
  return isHostPort && fields.every((field) => wanted[field] === current[field])
}

function partsOf(wanted: readonly Mapping[], current: readonly Mapping[]): Parts {
  const { added, removed, renamed } = compareMappings(wanted, current)
  const texts = (indexes: readonly number[]): string[] => indexes.map((index) => mappingText(current[index]!))
  return {
    removed: texts([...removed, ...renamed.map(({ index }) => index)]),
    added: [
      ...added.map(mappingText),
      ...renamed.map(({ index, description }) => mappingText({ ...current[index]!, description })),
    ],
  }
}
