import { parseAddress } from '../../../shared/addresses.js'
import {
  askNetfilter,
  attribute,
  attributesIn,
  errorIn,
  familyBytes,
  netlink,
  type NetlinkMessage,
  type NetlinkRequest,
} from './netlink.js'
import { CommandError } from '../process/process.js'

/*
 * This module deletes flows from the kernel's connection tracking table. Flows outlive the rules that created them.
 * Their packets would therefore reach the next owner of an address or port. conntrack(8) would walk the whole table for
 * each address and direction. This module walks it once.
 */

/** Matches flows to delete. All given conditions must hold. */
export interface FlowFilter {
  /** An address of the flow. `is`: the role that this address must have in the flow. */
  readonly address: string
  readonly is: FlowPlace
  readonly protocol?: 'tcp' | 'udp'
  /** Address to which the opener sent its packets, before a mapping translated this address. */
  readonly asked?: string
  /** First and last port to which the flow was opened. */
  readonly ports?: readonly [first: number, last: number]
}

/**
 * Roles of addresses in a flow. `opener`: opened the flow. `asked`: the address to which it was opened. `answerer`: the
 * address that answers (not `asked` if a mapping applies). `answered`: the address that gets the answers.
 */
export type FlowPlace = 'opener' | 'asked' | 'answerer' | 'answered'

/* Numbers of linux/netfilter/nfnetlink_conntrack.h. */
const [newFlow, getFlows, deleteFlow] = [0, 1, 2].map((message) => (1 << 8) | message) as [number, number, number]
const [tupleOriginal, tupleReply, idOf, zoneOf] = [1, 2, 12, 18]
const [tupleIp, tupleProtocol] = [1, 2]
const [protocolNumber, destinationPort] = [1, 3]
/** Netlink attributes of source and destination, by address family. */
const ends = { 2: [1, 2], 10: [3, 4] } as const
type Family = keyof typeof ends
const noSuchFlow = 2
const protocolNumbers = { tcp: 6, udp: 17 } as const

interface Flow {
  readonly family: Family
  /** Addresses by their role in the flow, each as bytes in a latin1 string. */
  readonly places: Readonly<Record<FlowPlace, string>>
  readonly protocol: number
  readonly askedPort: number
  /** Netlink attributes by which the kernel identifies the flow. */
  readonly name: Buffer
}

/** Deletes the matching flows. Later packets open new flows. @throws {CommandError} if a flow could not be deleted */
export async function forgetFlows(filters: readonly FlowFilter[]): Promise<void> {
  const wanted = new Map<string, FlowFilter[]>()
  for (const filter of filters) {
    const key = `${filter.is} ${bytesOf(filter.address).toString('latin1')}`
    const alike = wanted.get(key)
    if (alike) alike.push(filter)
    else wanted.set(key, [filter])
  }
  const addresses = new Set(filters.map(({ address }) => address))
  const flows = await readFlows([...addresses].map(bytesOf))
  const stale = flows.filter((flow) =>
    Object.entries(flow.places).some(([place, address]) =>
      wanted.get(`${place} ${address}`)?.some((filter) => matches(flow, filter)),
    ),
  )
  await deleteFlows(stale)
}

/** A flow of the table, with canonical addresses. */
export interface TrackedFlow extends Readonly<Record<FlowPlace, string>> {
  /** Undefined if the flow has another protocol. */
  readonly protocol: 'tcp' | 'udp' | undefined
  readonly askedPort: number
}

/** Reads the flows that contain an address between `first` and `last` (IPv4), or one of `others`. */
export async function readTrackedFlows(
  { first, last }: { readonly first: string; readonly last: string },
  others: readonly string[],
): Promise<TrackedFlow[]> {
  const [from, to] = [bytesOf(first), bytesOf(last)]
  const differing = from.findIndex((byte, at) => byte !== to[at])
  const network = from.subarray(0, differing < 0 ? from.length : differing)
  const flows = await readFlows([network, ...others.map(bytesOf)])
  return flows.map(({ places, protocol, askedPort }) => ({
    opener: textOf(places.opener),
    asked: textOf(places.asked),
    answerer: textOf(places.answerer),
    answered: textOf(places.answered),
    protocol: protocol === protocolNumbers.tcp ? 'tcp' : protocol === protocolNumbers.udp ? 'udp' : undefined,
    askedPort,
  }))
}

async function readFlows(containing: readonly Buffer[]): Promise<Flow[]> {
  const flows: Flow[] = []
  for (const family of [2, 10] as const) {
    const length = family === 2 ? 4 : 16
    const needles = containing.filter((bytes) => (bytes.length > 4 ? 16 : 4) === length)
    if (needles.length === 0) continue
    const request = { type: getFlows, flags: netlink.dump, family, attributes: Buffer.alloc(0) }
    const answers = await askNetfilter([request], needles)
    failOn(answers)
    for (const { type, body } of answers) if (type === newFlow) flows.push(parseFlow(family, body))
  }
  return flows
}

async function deleteFlows(flows: readonly Flow[]): Promise<void> {
  if (flows.length === 0) return
  const requests = flows.map(({ family, name }): NetlinkRequest => ({
    type: deleteFlow,
    flags: netlink.ack,
    family,
    attributes: name,
  }))
  // It is not a failure if a flow has already ended.
  failOn(await askNetfilter(requests), noSuchFlow)
}

function failOn(answers: readonly NetlinkMessage[], accepted = 0): void {
  const failed = answers.map((answer) => errorIn(answer) ?? 0).find((error) => error !== 0 && error !== accepted)
  if (failed !== undefined)
    throw new CommandError('conntrack', failed, '', `the kernel refused the request with errno ${failed}`)
}

function parseFlow(family: Family, body: Buffer): Flow {
  const flow = attributesIn(body, familyBytes)
  const original = attributesIn(flow.get(tupleOriginal))
  const [opener, asked] = addressesIn(family, original)
  const [answerer, answered] = addressesIn(family, attributesIn(flow.get(tupleReply)))
  const protocol = attributesIn(original.get(tupleProtocol))
  const named = [tupleOriginal, idOf, zoneOf].flatMap((type) => {
    const value = flow.get(type)
    return value ? [attribute(type === tupleOriginal ? type | nested : type, value)] : []
  })
  return {
    family,
    places: { opener, asked, answerer, answered },
    protocol: protocol.get(protocolNumber)?.readUInt8() ?? 0,
    askedPort: protocol.get(destinationPort)?.readUInt16BE() ?? 0,
    name: Buffer.concat(named),
  }
}

const nested = 0x8000

function addressesIn(family: Family, tuple: Map<number, Buffer>): [source: string, destination: string] {
  const ip = attributesIn(tuple.get(tupleIp))
  const [source, destination] = ends[family].map((type) => ip.get(type)?.toString('latin1') ?? '')
  return [source ?? '', destination ?? '']
}

function matches({ protocol, places, askedPort }: Flow, filter: FlowFilter): boolean {
  const [first, last] = filter.ports ?? [0, 65535]
  return (
    (filter.protocol === undefined || protocol === protocolNumbers[filter.protocol]) &&
    (filter.asked === undefined || places.asked === bytesOf(filter.asked).toString('latin1')) &&
    askedPort >= first &&
    askedPort <= last
  )
}

/** Returns the 4 or 16 bytes of an address in network order. */
function bytesOf(address: string): Buffer {
  const { first, family } = parseAddress(address)!
  return Buffer.from(first.toString(16).padStart(family === 'ipv4' ? 8 : 32, '0'), 'hex')
}

function textOf(latin1: string): string {
  const bytes = Buffer.from(latin1, 'latin1')
  if (bytes.length === 4) return [...bytes].join('.')
  return parseAddress(bytes.toString('hex').replace(/.{4}(?!$)/g, '$&:'))?.text ?? ''
}
