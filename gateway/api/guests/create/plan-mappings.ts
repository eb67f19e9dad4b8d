import type { Static } from 'typebox'
import { parseAddress } from '../../../../shared/addresses.js'
import { invalidField } from '../../../../shared/errors.js'
import { limits } from '../../../../shared/guest-rules.js'
import { checkPortMapping } from '../../../../shared/port-mapping-rules.js'
import type { PortMapping } from '../../../../proto/gen/berth/agent/v1/guest.js'
import { readInteger } from '../../../http/normalize.js'
import type { CreateBody } from './create-body.js'
import type { Os } from './plan-login.js'
import type { MappingBodySchema, MappingChangeSchema } from '../setting-schemas.js'

/**
 * Converts a mapping for the agent.
 * @param at path of the mapping in the body, for error messages
 * @throws {BerthError} `invalid_field`
 */
export function planMapping(body: Static<typeof MappingBodySchema>, at = ''): PortMapping {
  const wanted = {
    protocol: body.protocol ?? 'tcp',
    hostIp: planHostIp(body.host_ip) ?? '',
    hostPort: body.host_port ?? 0,
    hostPortEnd: body.host_port_end ?? 0,
    containerPort: body.container_port,
    containerPortEnd: body.container_port_end ?? 0,
    description: body.description ?? '',
  }
  const { length: _length, ...mapping } = checkPortMapping(wanted, at)
  return mapping
}

/** Converts `0.0.0.0` and `::` to "" (all addresses), because some clients cannot omit the field. */
export function planHostIp(text: string | undefined): string | undefined {
  return text !== undefined && ['0.0.0.0', '::'].includes(parseAddress(text)?.text ?? '') ? '' : text
}

/** Converts the fields of a change. Fields that were not sent stay undefined. */
export function planMappingChange(body: Static<typeof MappingChangeSchema>) {
  return {
    protocol: body.protocol,
    hostIp: planHostIp(body.host_ip),
    hostPort: body.host_port,
    hostPortEnd: body.host_port_end,
    containerPort: body.container_port,
    containerPortEnd: body.container_port_end,
    description: body.description,
  }
}

/**
 * Plans the mappings of a new container, in this order: its login port (SSH, or the remote desktop of Windows),
 * mappings with automatic ports, extra ports, and mappings that the request lists.
 * @throws {BerthError} `invalid_field`
 */
export function planMappings(body: CreateBody, os: Os = 'linux'): PortMapping[] {
  if (body.assign_nat === false) return refuseMappings(body)
  const explicit = explicitMappings(body)
  const login = loginPorts[os]
  const ssh = explicit.filter((mapping) => leadsTo(login, mapping))
  // Some clients send 0 instead of omitting a count, so 0 counts as omitted.
  const picked = pickedMappings(body.port_mapping_count || (ssh.length > 0 ? 0 : 1), ssh.length > 0 ? 0 : login)
  const extra = withoutMapped(extraPorts(body.extra_ports), [...picked, ...explicit])
  const mappings = [
    ...ssh,
    ...picked,
    ...extra.map(pickedTo),
    ...explicit.filter((mapping) => !leadsTo(login, mapping)),
  ]
  if (mappings.length > limits.portMappings.max)
    throw invalidField('port_mapping_count', `at most ${limits.portMappings.max} port mappings are allowed`)
  refuseDoubleHostPorts(mappings)
  return mappings
}

function explicitMappings(body: CreateBody): PortMapping[] {
  return (body.nat_port_mappings ?? []).map((wanted, index) => planMapping(wanted, `nat_port_mappings.${index}.`))
}

/** Port of the remote login of each operating system. */
const loginPorts = { linux: 22, windows: 3389 } as const
const descriptions: Readonly<Record<number, string>> = { 22: 'SSH', 3389: 'RDP' }

function leadsTo(port: number, mapping: PortMapping): boolean {
  return mapping.containerPort === port && mapping.containerPortEnd === port && mapping.protocol === 'tcp'
}

/** @param first container port of the first mapping; 0: its host port. All other mappings use their host port. */
function pickedMappings(count: number, first: number): PortMapping[] {
  // The container port 0 stands for the host port, which the agent chooses.
  return Array.from({ length: count }, (_, index) => pickedTo(index === 0 ? first : 0))
}

function pickedTo(containerPort: number): PortMapping {
  const description = descriptions[containerPort] ?? ''
  const host = { hostIp: '', hostPort: 0, hostPortEnd: 0 }
  return { ...host, protocol: 'tcp', containerPort, containerPortEnd: containerPort, description }
}

/** Parses a list of ports. Ignores other values, because one client uses this field for something else. */
function extraPorts(value: unknown): number[] {
  if (!Array.isArray(value)) return []
  // PHP's explode converts empty text to a list with one empty entry.
  const named = value.filter((entry) => entry !== null && String(entry).trim() !== '')
  return named.map((entry: unknown) => {
    const port = readInteger(entry)
    if (typeof port === 'number' && Number.isInteger(port) && port >= 1 && port <= 65_535) return port
    throw invalidField('extra_ports', 'extra_ports: must be integers from 1 to 65535')
  })
}

/**
 * Removes duplicate ports, and ports that already have a mapping in the request. Only mappings that the request lists
 * in full may share a container port.
 */
function withoutMapped(extra: readonly number[], others: readonly PortMapping[]): number[] {
  const isMapped = (port: number): boolean =>
    others.some(
      ({ protocol, containerPort, containerPortEnd }) =>
        protocol === 'tcp' && containerPort <= port && port <= containerPortEnd,
    )
  return [...new Set(extra)].filter((port) => !isMapped(port))
}

/** Rejects mappings that share a host port. @throws {BerthError} `invalid_field` */
export function refuseDoubleHostPorts(mappings: readonly PortMapping[]): void {
  const fixed = mappings.filter(({ hostPort }) => hostPort !== 0).toSorted((a, b) => a.hostPort - b.hostPort)
  fixed.forEach((mapping, index) => {
    for (const later of fixed.slice(index + 1)) {
      if (later.hostPort > mapping.hostPortEnd) break
      if (later.protocol === mapping.protocol && sharesAddress(later, mapping))
        throw invalidField('nat_port_mappings', 'nat_port_mappings: a host port appears more than once')
    }
  })
}

function sharesAddress(a: PortMapping, b: PortMapping): boolean {
  return a.hostIp === '' || b.hostIp === '' || a.hostIp === b.hostIp
}

/** Used if `assign_nat` is false. Rejects a request that lists mappings, but ignores a requested number of mappings. */
function refuseMappings(body: CreateBody): PortMapping[] {
  const asks: [string, boolean][] = [
    ['nat_port_mappings', (body.nat_port_mappings ?? []).length > 0],
    ['extra_ports', extraPorts(body.extra_ports).length > 0],
  ]
  const field = asks.find(([, asked]) => asked)?.[0]
  if (field !== undefined) throw invalidField(field, `${field}: must be empty if assign_nat is false`)
  return []
}
