import { parseAddress, parseAddressRange } from './addresses.js'
import { invalidField } from './errors.js'
import { isDescription, limits } from './guest-rules.js'

/*
 * Rules for what is set of a guest's network, checked by the gateway and again by the agent. What passes is
 * canonical: it goes into nft scripts as it is.
 */

export const networkLimits = {
  port: { min: 1, max: 65_535 },
  /** Host ports that guests may be given; those below are the host's. */
  natPort: { min: 1024, max: 65_535 },
  firewallRules: 200,
  /** Ports and ranges in one rule. */
  rulePorts: 50,
  /** GB of 10^9 bytes a month. */
  trafficGb: { min: 0, max: 1_000_000_000 },
  /** Day of the month; 0 is the host's. Later ones are not in every month. */
  resetDay: { min: 0, max: 28 },
  /** Addresses of one family that one guest may have. */
  addresses: { min: 0, max: 256 },
} as const

export type MappingProtocol = 'tcp' | 'udp'

/** A port mapping as the wire has it. */
export interface WantedMapping {
  readonly protocol: string
  /** Empty: every local address. */
  readonly hostIp: string
  /** 0: to be picked. */
  readonly hostPort: number
  /** Last port of a range; 0: follows from the other range, else a single port. */
  readonly hostPortEnd: number
  /** 0: the same as the host port. */
  readonly containerPort: number
  readonly containerPortEnd: number
  readonly description: string
}

/** A mapping that passed; ends are 0 exactly where their first port is. */
export interface CheckedMapping extends WantedMapping {
  readonly protocol: MappingProtocol
  /** Ports it holds, 1 or more. */
  readonly length: number
}

/**
 * @param at what stands before the field's name in messages, as `nat_port_mappings.0.`
 * @throws {BerthError} `invalid_field` naming the field in the API's spelling
 */
export function checkPortMapping(wanted: WantedMapping, at = ''): CheckedMapping {
  const { description } = wanted
  const protocol = oneOf(`${at}protocol`, wanted.protocol, ['tcp', 'udp'])
  const hostIp = checkHostIp(`${at}host_ip`, wanted.hostIp)
  if (!isDescription(description)) throw badDescription(`${at}description`)
  const length = checkLengths(wanted, at)
  const { hostPort, containerPort } = wanted
  const hostPortEnd = endOf(`${at}host_port`, hostPort, length)
  const containerPortEnd = endOf(`${at}container_port`, containerPort, length)
  return { protocol, hostIp, description, hostPort, hostPortEnd, containerPort, containerPortEnd, length }
}

type MappingPorts = Pick<WantedMapping, 'hostPort' | 'hostPortEnd' | 'containerPort' | 'containerPortEnd'>

/**
 * A mapping with some fields changed: what is not sent stays. First ports that are sent without ends move their
 * ranges, which stay as long as they are; an end without the other side's makes both ranges longer or shorter.
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

/** Neither side's end is left to tell the length; a first port that is to be picked has none. */
function moveRanges(stored: MappingPorts, moved: WantedMapping): WantedMapping {
  const further = Math.max(0, stored.hostPortEnd - stored.hostPort)
  const endAfter = (first: number): number => (first === 0 ? 0 : first + further)
  const { hostPort, containerPort } = moved
  return { ...moved, hostPortEnd: endAfter(hostPort), containerPortEnd: endAfter(containerPort) }
}

/** @returns canonical; empty: every local address. @throws {BerthError} `invalid_field` */
export function checkHostIp(field: string, text: string): string {
  if (text === '') return ''
  const address = parseAddress(text)
  if (!address) throw invalidField(field, `${field}: not an IP address`)
  return address.text
}

/** Of the two ranges; one that has no end follows the other. */
function checkLengths(ports: MappingPorts, at: string): number {
  const host = lengthOf(`${at}host_port`, ports.hostPort, ports.hostPortEnd)
  const container = lengthOf(`${at}container_port`, ports.containerPort, ports.containerPortEnd)
  if (host !== undefined && container !== undefined && host !== container)
    throw invalidField(`${at}host_port_end`, `${at}host_port_end: both ranges must be equally long`)
  return host ?? container ?? 1
}

function lengthOf(field: string, first: number, end: number): number | undefined {
  if (first !== 0) checkPort(field, first)
  if (end === 0) return undefined
  checkPort(`${field}_end`, end)
  if (first === 0) throw invalidField(field, `${field}: is needed with ${field}_end`)
  if (end < first) throw invalidField(`${field}_end`, `${field}_end: may not be below ${field}`)
  return end - first + 1
}

function endOf(field: string, first: number, length: number): number {
  return first === 0 ? 0 : checkPort(`${field}_end`, first + length - 1)
}

function checkPort(field: string, port: number): number {
  return checkInteger(field, port, networkLimits.port)
}

/**
 * The range that host ports of mappings are of.
 * @throws {BerthError} `invalid_field` naming `field.start` or `field.end`
 */
export function checkPortRange(field: string, { start, end }: { start: number; end: number }): void {
  checkInteger(`${field}.start`, start, networkLimits.natPort)
  checkInteger(`${field}.end`, end, networkLimits.natPort)
  if (end < start) throw invalidField(`${field}.end`, `${field}.end: may not be below ${field}.start`)
}

/** A firewall as the wire has it. */
export interface WantedFirewall {
  readonly enabled: boolean
  readonly defaultAction: string
  readonly rules: readonly WantedRule[]
}

export interface WantedRule {
  /** Empty: a new rule. */
  readonly id: string
  readonly direction: string
  readonly protocol: string
  readonly action: string
  readonly network: string
  /** Remote side: address, CIDR, range `A-B`; empty: any. */
  readonly sourceIp: string
  /** Port, range `A-B`, or several with commas; empty: any. */
  readonly port: string
  readonly description: string
}

const directions = ['in', 'out'] as const
const ruleProtocols = ['tcp', 'udp', 'icmp', 'all'] as const
const ruleActions = ['ACCEPT', 'DROP'] as const
const networks = ['ipv4', 'ipv6', 'all'] as const

/** The words of a firewall. */
export const firewallWords = { directions, protocols: ruleProtocols, actions: ruleActions, networks } as const

export interface CheckedRule extends WantedRule {
  readonly direction: (typeof directions)[number]
  readonly protocol: (typeof ruleProtocols)[number]
  readonly action: (typeof ruleActions)[number]
  readonly network: (typeof networks)[number]
}

export interface CheckedFirewall extends WantedFirewall {
  readonly defaultAction: (typeof ruleActions)[number]
  readonly rules: readonly CheckedRule[]
}

/**
 * @returns addresses and ports in canonical form: host bits cleared, ports ascending, overlaps merged
 * @throws {BerthError} `invalid_field` naming the field, as `rules.0.port`
 */
export function checkFirewall(wanted: WantedFirewall): CheckedFirewall {
  const defaultAction = oneOf('default_action', wanted.defaultAction, ruleActions)
  if (wanted.rules.length > networkLimits.firewallRules)
    throw invalidField('rules', `rules: at most ${networkLimits.firewallRules}`)
  const ids = wanted.rules.map(({ id }) => id).filter((id) => id !== '')
  const twice = wanted.rules.findIndex(({ id }) => id !== '' && ids.indexOf(id) !== ids.lastIndexOf(id))
  if (twice >= 0) throw invalidField(`rules.${twice}.id`, `rules.${twice}.id: is there twice`)
  return { enabled: wanted.enabled, defaultAction, rules: wanted.rules.map(checkRule) }
}

function checkRule(wanted: WantedRule, index: number): CheckedRule {
  const at = (field: string): string => `rules.${index}.${field}`
  const protocol = oneOf(at('protocol'), wanted.protocol, ruleProtocols)
  const network = oneOf(at('network'), wanted.network, networks)
  if (!/^[A-Za-z0-9_-]{0,64}$/.test(wanted.id)) throw invalidField(at('id'), `${at('id')}: malformed`)
  if (!isDescription(wanted.description)) throw badDescription(at('description'))
  return {
    id: wanted.id,
    direction: oneOf(at('direction'), wanted.direction, directions),
    protocol,
    action: oneOf(at('action'), wanted.action, ruleActions),
    network,
    sourceIp: checkSource(at('source_ip'), wanted.sourceIp, network),
    port: checkRulePorts(at('port'), wanted.port, protocol),
    description: wanted.description,
  }
}

const onlyBlanks = /^ *$/

function checkSource(field: string, text: string, network: CheckedRule['network']): string {
  if (onlyBlanks.test(text)) return ''
  const range = /[^\S ]|\p{Cc}/u.test(text) ? undefined : parseAddressRange(text.trim())
  if (!range) throw invalidField(field, `${field}: must be an IP address, a CIDR or a range A-B`)
  if (network !== 'all' && network !== range.family)
    throw invalidField(field, `${field}: is not of the rule's network ${network}`)
  return range.text
}

function checkRulePorts(field: string, text: string, protocol: CheckedRule['protocol']): string {
  if (onlyBlanks.test(text)) return ''
  if (protocol !== 'tcp' && protocol !== 'udp')
    throw invalidField(field, `${field}: only for the protocols tcp and udp`)
  const parts = text.split(',')
  if (parts.length > networkLimits.rulePorts)
    throw invalidField(field, `${field}: at most ${networkLimits.rulePorts} ports and ranges`)
  const ranges = parts.map((part) => parsePortRange(field, part))
  return mergePorts(ranges)
    .map(([first, last]) => (first === last ? String(first) : `${first}-${last}`))
    .join(',')
}

function parsePortRange(field: string, part: string): [number, number] {
  const [, from, to] = /^ *(\d{1,5})(?: *- *(\d{1,5}))? *$/.exec(part) ?? []
  const [first, last] = [Number(from), Number(to ?? from)]
  const { min, max } = networkLimits.port
  if (from === undefined || first < min || last > max || first > last)
    throw invalidField(field, `${field}: must be a port, a comma list or a range A-B, from ${min} to ${max}`)
  return [first, last]
}

/** nft refuses a set whose intervals overlap. */
function mergePorts(ranges: readonly [number, number][]): [number, number][] {
  const merged: [number, number][] = []
  for (const [first, last] of ranges.toSorted((a, b) => a[0] - b[0])) {
    const previous = merged.at(-1)
    if (previous && first <= previous[1]) previous[1] = Math.max(previous[1], last)
    else merged.push([first, last])
  }
  return merged
}

/** Numbers of a traffic limit that are sent; the others are absent. */
export interface WantedTraffic {
  readonly monthlyGb?: number | undefined
  readonly inGb?: number | undefined
  readonly outGb?: number | undefined
  readonly throttleMbps?: number | undefined
  readonly resetDay?: number | undefined
}

/** @throws {BerthError} `invalid_field` naming the field in the API's spelling */
export function checkTrafficLimit(wanted: WantedTraffic): void {
  const check = (field: string, value: number | undefined, range: Range): void => {
    if (value !== undefined) checkInteger(field, value, range)
  }
  check('monthly_traffic_gb', wanted.monthlyGb, networkLimits.trafficGb)
  check('traffic_in_gb', wanted.inGb, networkLimits.trafficGb)
  check('traffic_out_gb', wanted.outGb, networkLimits.trafficGb)
  check('traffic_throttle_mbps', wanted.throttleMbps, limits.networkMbps)
  check('traffic_reset_day', wanted.resetDay, networkLimits.resetDay)
}

interface Range {
  readonly min: number
  readonly max: number
}

function checkInteger(field: string, value: number, { min, max }: Range): number {
  if (!Number.isSafeInteger(value) || value < min || value > max)
    throw invalidField(field, `${field}: must be an integer from ${min} to ${max}`)
  return value
}

function oneOf<const Word extends string>(field: string, value: string, words: readonly Word[]): Word {
  const word = words.find((known) => known === value)
  if (word === undefined) throw invalidField(field, `${field}: must be one of ${words.join(', ')}`)
  return word
}

function badDescription(field: string): Error {
  return invalidField(field, `${field}: at most 200 printable characters on one line`)
}
