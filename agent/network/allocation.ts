import { randomInt } from 'node:crypto'
import { BerthError, conflict, invalidField } from '../../shared/errors.js'
import type { Database } from '../state/database.js'
import { formatIpv4, parseIpv4, parseSubnet } from './subnet.js'

export { readListeningPorts } from '../host/listening-ports.js'
export { macOf } from './subnet.js'

/*
 * Choices made inside the journal's transaction: synchronous, and what is taken is what the journal says.
 * A few random tries find a free value at once in a pool that is not nearly full; then all that is taken is
 * read and the choice is exact.
 */

const tries = 32

/**
 * A random address no guest has; random, so that an address comes back late.
 * @throws {BerthError} `resource_exhausted`
 */
export function allocateIpv4(db: Database, cidr: string): string {
  const { first, last } = parseSubnet(cidr)
  const taken = db.prepare('SELECT 1 FROM guests WHERE ipv4 = ?')
  for (let i = 0; i < tries; i++) {
    const address = formatIpv4(randomInt(first, last + 1))
    if (!taken.get(address)) return address
  }
  const all = db.prepare<[], string>('SELECT ipv4 FROM guests').pluck().all()
  const [address] = pickFree(first, last, new Set(all.map((text) => parseIpv4(text) ?? 0)), 1)
  if (address === undefined) throw exhausted('IPv4 addresses')
  return formatIpv4(address)
}

export interface PortRange {
  readonly start: number
  readonly end: number
}

export interface PortRequest {
  readonly range: PortRange
  readonly protocol: 'tcp' | 'udp'
  readonly count: number
  /** Others that must not be picked, as `tcp:20001`. */
  readonly taken: ReadonlySet<string>
}

/**
 * Random free host ports, different from one another.
 * @throws {BerthError} `resource_exhausted` when fewer are free
 */
export function allocatePorts(db: Database, { range, protocol, count, taken }: PortRequest): number[] {
  const mapped = db.prepare('SELECT 1 FROM port_mappings WHERE protocol = ? AND host_port = ?')
  const picked = new Set<number>()
  for (let i = 0; picked.size < count && i < tries + 2 * count; i++) {
    const port = randomInt(range.start, range.end + 1)
    if (!taken.has(`${protocol}:${port}`) && !mapped.get(protocol, port)) picked.add(port)
  }
  if (picked.size === count) return [...picked]
  const all = db.prepare<[string], number>('SELECT host_port FROM port_mappings WHERE protocol = ?').pluck()
  const used = new Set([...all.all(protocol), ...portsOf(taken, protocol)])
  const ports = pickFree(range.start, range.end, used, count)
  if (ports.length < count) throw exhausted(`${protocol} ports`)
  return ports
}

export interface PortCheck {
  readonly range: PortRange
  readonly protocol: 'tcp' | 'udp'
  readonly hostPort: number
  /** From `readListeningPorts`. */
  readonly listening: ReadonlySet<string>
}

/** @throws {BerthError} `invalid_field` when out of range, `port_conflict` when mapped or in use on the host */
export function checkPort(db: Database, { range, protocol, hostPort, listening }: PortCheck): void {
  if (!Number.isInteger(hostPort) || hostPort < range.start || hostPort > range.end)
    throw invalidField('host_port', `must be from ${range.start} to ${range.end}`)
  const mapped = db.prepare('SELECT 1 FROM port_mappings WHERE protocol = ? AND host_port = ?')
  if (mapped.get(protocol, hostPort) || listening.has(`${protocol}:${hostPort}`))
    throw conflict('port_conflict', `host port ${hostPort}/${protocol} is in use`)
}

/** Mappings of all guests. */
export function countPorts(db: Database): number {
  return db.prepare<[], number>('SELECT count(*) FROM port_mappings').pluck().get() ?? 0
}

/** Host-side interface of a guest; the kernel takes names of up to 15 characters. */
export function deviceName(prefix: string, id: number): string {
  const name = `${prefix}${id}`
  if (!Number.isSafeInteger(id) || id < 1 || name.length > 15)
    throw new BerthError('internal', 'internal_error', `no interface name for guest ${id}`)
  return name
}

/** Up to `count` random values of first..last that are not taken. */
function pickFree(first: number, last: number, taken: ReadonlySet<number>, count: number): number[] {
  const free: number[] = []
  for (let value = first; value <= last; value++) if (!taken.has(value)) free.push(value)
  for (let i = 0; i < Math.min(count, free.length); i++) {
    const j = randomInt(i, free.length)
    ;[free[i], free[j]] = [free[j]!, free[i]!]
  }
  return free.slice(0, count)
}

function portsOf(taken: ReadonlySet<string>, protocol: string): number[] {
  return [...taken].flatMap((key) => {
    const [of, port] = key.split(':')
    return of === protocol ? [Number(port)] : []
  })
}

function exhausted(what: string): BerthError {
  return new BerthError('exhausted', 'resource_exhausted', `no ${what} left`)
}
