import { parseAddress } from './addresses.js'
import { invalidField } from './errors.js'
import { checkDescription, checkInteger, oneOf } from './field-checks.js'
import { networkLimits } from './network-limits.js'

/* Rules of port mappings, checked by the gateway and again by the agent. Accepted mappings are canonical. */

export type MappingProtocol = 'tcp' | 'udp'

/** A port mapping as the caller sent it. */
export interface WantedMapping {
  readonly protocol: string
  /** Address of the host. Empty stands for every local address. */
  readonly hostIp: string
  /** First host port. 0: the agent chooses the port. */
  readonly hostPort: number
  /** Last host port. 0: the host range is as long as the container range; without a container range, it is one port. */
  readonly hostPortEnd: number
  /** First container port. 0: the same number as the host port. */
  readonly containerPort: number
  readonly containerPortEnd: number
  readonly description: string
}

/** A checked mapping. A range whose first port is 0 also has the last port 0. The agent then chooses both ports. */
export interface CheckedMapping extends WantedMapping {
  readonly protocol: MappingProtocol
  /** Number of mapped ports, at least 1. */
  readonly length: number
}

/**
 * Checks a port mapping.
 * @param at prefix of field names in messages, such as `nat_port_mappings.0.`
 * @throws {BerthError} `invalid_field` with the field's name in the API
 */
export function checkPortMapping(wanted: WantedMapping, at = ''): CheckedMapping {
  const protocol = oneOf(`${at}protocol`, wanted.protocol, ['tcp', 'udp'])
  const hostIp = checkHostIp(`${at}host_ip`, wanted.hostIp)
  const description = checkDescription(`${at}description`, wanted.description)
  const length = checkLengths(wanted, at)
  const { hostPort, containerPort } = wanted
  const hostPortEnd = endOf(`${at}host_port`, hostPort, length)
  const containerPortEnd = endOf(`${at}container_port`, containerPort, length)
  return { protocol, hostIp, description, hostPort, hostPortEnd, containerPort, containerPortEnd, length }
}

type MappingPorts = Pick<WantedMapping, 'hostPort' | 'hostPortEnd' | 'containerPort' | 'containerPortEnd'>

/**
 * Applies the fields of a request to a stored mapping. If a range gets a new first port without a new last port, the
 * range moves and keeps its length. If one range gets a new last port, the lengths of both ranges change.
 */
export function changePortMapping(
  stored: WantedMapping,
  change: { readonly [Field in keyof WantedMapping]?: WantedMapping[Field] | undefined },
): WantedMapping {
  const sent = Object.fromEntries(Object.entries(change).filter(([, value]) => value !== undefined))
  const touched = (...fields: (keyof MappingPorts)[]): boolean => fields.some((field) => field in sent)
  if (touched('hostPort') && touched('containerPort') && !touched('hostPortEnd', 'containerPortEnd'))
    return moveRanges(stored, { ...stored, ...sent })
  const hostPortEnd = touched('hostPort', 'containerPortEnd') ? 0 : stored.hostPortEnd
  const containerPortEnd = touched('containerPort', 'hostPortEnd') ? 0 : stored.containerPortEnd
  return { ...stored, hostPortEnd, containerPortEnd, ...sent }
}

/** Computes the last ports for new first ports. Each range keeps its length. For a first port of 0, the last is 0. */
function moveRanges(stored: MappingPorts, moved: WantedMapping): WantedMapping {
  const further = Math.max(0, stored.hostPortEnd - stored.hostPort)
  const endAfter = (first: number): number => (first === 0 ? 0 : first + further)
  const { hostPort, containerPort } = moved
  return { ...moved, hostPortEnd: endAfter(hostPort), containerPortEnd: endAfter(containerPort) }
}

/** @returns the canonical address; empty for every local address. @throws {BerthError} `invalid_field` */
export function checkHostIp(field: string, text: string): string {
  if (text === '') return ''
  const address = parseAddress(text)
  if (!address) throw invalidField(field, `${field}: not an IP address`)
  return address.text
}

/** Returns the length of the ranges, which must be equal. A range without a last port is as long as the other range. */
function checkLengths(ports: MappingPorts, at: string): number {
  const host = lengthOf(`${at}host_port`, ports.hostPort, ports.hostPortEnd)
  const container = lengthOf(`${at}container_port`, ports.containerPort, ports.containerPortEnd)
  if (host !== undefined && container !== undefined && host !== container)
    throw invalidField(
      `${at}host_port_end`,
      `${at}host_port_end: the ranges of host ports and container ports must have the same length`,
    )
  return host ?? container ?? 1
}

function lengthOf(field: string, first: number, end: number): number | undefined {
  if (first !== 0) checkPort(field, first)
  if (end === 0) return undefined
  checkPort(`${field}_end`, end)
  if (first === 0) throw invalidField(field, `${field}: is required with ${field}_end`)
  if (end < first) throw invalidField(`${field}_end`, `${field}_end: must not be below ${field}`)
  return end - first + 1
}

function endOf(field: string, first: number, length: number): number {
  return first === 0 ? 0 : checkPort(`${field}_end`, first + length - 1)
}

function checkPort(field: string, port: number): number {
  return checkInteger(field, port, networkLimits.port)
}

/**
 * Checks the range of host ports that a host offers for mappings.
 * @throws {BerthError} `invalid_field`; its field is `field` with `.start` or `.end` appended
 */
export function checkPortRange(field: string, { start, end }: { start: number; end: number }): void {
  checkInteger(`${field}.start`, start, networkLimits.natPort)
  checkInteger(`${field}.end`, end, networkLimits.natPort)
  if (end < start) throw invalidField(`${field}.end`, `${field}.end: must not be below ${field}.start`)
}
