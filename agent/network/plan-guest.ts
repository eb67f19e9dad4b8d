import { BerthError } from '../../shared/errors.js'
import type { GuestNetwork } from './contract.js'
import { parseIpv4 } from './subnet.js'

/** Elements as nft prints them with `-n`. */
export interface GuestElements {
  /** `"device" . mac . ipv4` */
  readonly guests: readonly string[]
  /** `protocol . host port` → `ipv4 . port` */
  readonly ports: ReadonlyMap<string, string>
}

const protocolNumbers = { tcp: 6, udp: 17 } as const

/**
 * The elements of one guest.
 * @throws {BerthError} `internal_error` when a value breaks its pattern: nothing else may reach nft
 */
export function planGuest(guest: GuestNetwork): GuestElements {
  checkGuest(guest)
  return {
    guests: [`"${guest.device}" . ${guest.mac} . ${guest.ipv4}`],
    ports: new Map(
      guest.portMappings.map((m) => [
        `${protocolNumbers[m.protocol]} . ${m.hostPort}`,
        `${guest.ipv4} . ${m.containerPort}`,
      ]),
    ),
  }
}

function checkGuest({ device, mac, ipv4, portMappings }: GuestNetwork): void {
  const isPort = (port: number): boolean => Number.isInteger(port) && port > 0 && port < 65536
  const valid =
    /^[a-z]{1,4}\d{1,10}$/.test(device) &&
    /^[0-9a-f]{2}(:[0-9a-f]{2}){5}$/.test(mac) &&
    parseIpv4(ipv4) !== undefined &&
    portMappings.every(
      (m) => Object.hasOwn(protocolNumbers, m.protocol) && isPort(m.hostPort) && isPort(m.containerPort),
    )
  if (!valid) throw new BerthError('internal', 'internal_error', `guest network out of its rules: ${device}`)
}

/** What to change of the host's elements; a port whose target changes is in both. */
export interface ElementChange {
  readonly removeGuests: readonly string[]
  readonly removePorts: readonly string[]
  readonly addGuests: readonly string[]
  readonly addPorts: ReadonlyMap<string, string>
}

/** One transaction's commands; removals come first, for nft refuses another value for a key that is there. */
export function planChange(table: string, change: ElementChange): string[] {
  const elements = (verb: 'add' | 'delete', at: string, items: readonly string[]): string[] =>
    items.length === 0 ? [] : [`${verb} element ${at} { ${items.join(', ')} }`]
  const guests = `bridge ${table} guests`
  const ports = `ip ${table} ports`
  return [
    ...elements('delete', guests, change.removeGuests),
    ...elements('delete', ports, change.removePorts),
    ...elements('add', guests, change.addGuests),
    ...elements(
      'add',
      ports,
      [...change.addPorts].map(([key, target]) => `${key} : ${target}`),
    ),
  ]
}
