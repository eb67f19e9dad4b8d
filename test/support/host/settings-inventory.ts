import Database from 'better-sqlite3'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { networkCommand, readGuestLimits, readInits, readInterfaces, type Instance } from './inventory.js'

/* Reads settings of guests without the agent's code: those in effect on the host, and those in the journal. */

export interface SettingsInventory {
  /** Elements of nft's maps of ports, as lines `map key : value`, for IPv4 and IPv6. */
  readonly ports: string[]
  /** Lines `map address : jump chain`, and lines `chain: rule; rule; …`. A rule is `PORTS verdict`, or `verdict` for all ports. */
  readonly firewalls: string[]
  /** Lines `name memory quota read write` of running containers: memory limit, CPU quota and I/O limits. */
  readonly limits: string[]
  /** Lines `interface Mbit/s` of running guests. */
  readonly rates: string[]
  /** Lines `name address` of running containers. Addresses have 32 hexadecimal digits. */
  readonly innerAddresses: string[]
}

const portMaps = [
  ['ip', 'ports'],
  ['ip', 'port_ranges'],
  ['ip6', 'ports6'],
  ['ip6', 'port_ranges6'],
] as const

export function readSettings(instance: Instance): SettingsInventory {
  const inits = [...readInits(instance)]
  return {
    ports: portMaps.flatMap((map) => readPorts(instance, map)).sort(),
    firewalls: readFirewalls(instance).sort(),
    limits: inits.map(([name]) => `${name} ${Object.values(readGuestLimits(name)).join(' ')}`).sort(),
    rates: readInterfaces(instance)
      .flatMap((device) => readRate(instance, device))
      .sort(),
    innerAddresses: inits.flatMap(([name, init]) => readInnerAddresses(name, parseInt(init))).sort(),
  }
}

function readPorts(instance: Instance, [family, map]: (typeof portMaps)[number]): string[] {
  const text = networkCommand(instance, 'nft', ['-n', 'list', 'map', family, instance.table, map])
  return elementsOf(text).map((element) => `${map} ${element}`)
}

function elementsOf(text: string): string[] {
  const [, body = ''] = /elements = \{([^}]*)\}/.exec(text) ?? []
  return body
    .split(',')
    .map((element) => element.trim().replace(/\s+/g, ' '))
    .filter(Boolean)
}

function readFirewalls(instance: Instance): string[] {
  const text = networkCommand(instance, 'nft', ['-n', 'list', 'table', 'inet', instance.table])
  const maps = [...text.matchAll(/^\tmap (firewall_\w+) \{([^]*?)^\t\}/gm)].flatMap(([, name, body = '']) =>
    elementsOf(body).map((element) => `${name} ${element}`),
  )
  const own = new RegExp(`^\\tchain ((?:in|out)_${instance.interfacePrefix}\\d+) \\{\\n([^]*?)^\\t\\}`, 'gm')
  const chains = [...text.matchAll(own)].map(([, name, body = '']) => {
    const rules = body.trim().split('\n').map(ruleOf)
    return `${name}: ${rules.join('; ')}`
  })
  return [...maps, ...chains]
}

/** Reduces a rule to ports and verdict. nft prints ports as numbers or, in a set, as `0x50 [invalid type]`. */
function ruleOf(line: string): string {
  const [, ports = ''] = /proto-(?:src|dst) (.*) \w+$/.exec(line.trim()) ?? []
  const numbers = [...ports.matchAll(/0x[0-9a-f]+|\d+/g)].map(([number]) => Number(number))
  const verdict = line.trim().split(' ').at(-1)
  return numbers.length > 0 ? `${numbers.sort((a, b) => a - b).join(',')} ${verdict}` : `${verdict}`
}

/** Reads the payload rate of a guest. HTB limits frames of 1,514 bytes, of which 1,448 bytes are payload. */
function readRate(instance: Instance, device: string): string[] {
  const text = networkCommand(instance, 'tc', ['class', 'show', 'dev', device])
  const [, rate, unit] = /^class htb \S+ .*\brate (\d+)([KM])bit/m.exec(text) ?? []
  if (rate === undefined) return []
  const kbit = Number(rate) * (unit === 'M' ? 1000 : 1)
  return [`${device} ${Math.round((kbit * 1448) / 1514 / 1000)}`]
}

function readInnerAddresses(name: string, pid: number): string[] {
  const global = '00'
  return readFileSync(`/proc/${pid}/net/if_inet6`, 'latin1')
    .split('\n')
    .map((line) => line.trim().split(/\s+/))
    .filter(([, , , scope]) => scope === global)
    .map(([address]) => `${name} ${address}`)
}

interface GuestRow {
  uuid: string
  id: number
  spec: string
  status: string
  ipv4: string
}

interface MappingRow {
  protocol: 'tcp' | 'udp'
  host_port: number
  host_port_end: number
  container_port: number
}

interface Guest extends GuestRow {
  readonly name: string
  readonly device: string
  readonly mappings: readonly MappingRow[]
  readonly ipv6: readonly string[]
}

/**
 * Returns the settings that the agent's journal requires while no operation is in progress. It supports only port
 * mappings without a host address.
 */
export function readExpectedSettings({ stateDir, interfacePrefix }: Instance): SettingsInventory {
  const db = new Database(join(stateDir, 'journal.db'), { readonly: true })
  try {
    const guests = db
      .prepare<[], GuestRow>('SELECT * FROM guests')
      .all()
      .map((row) => ({
        ...row,
        name: `${interfacePrefix}-${row.id}`,
        device: `${interfacePrefix}${row.id}`,
        mappings: db.prepare<[string], MappingRow>('SELECT * FROM port_mappings WHERE guest_uuid = ?').all(row.uuid),
        ipv6: db
          .prepare<[string], string>(
            'SELECT address FROM guest_addresses WHERE guest_uuid = ? AND family = 6 ORDER BY position',
          )
          .pluck()
          .all(row.uuid),
      }))
    return expectedOf(guests)
  } finally {
    db.close()
  }
}

function expectedOf(guests: readonly Guest[]): SettingsInventory {
  const running = guests.filter(({ status }) => status === 'running')
  const containers = running.filter(({ spec }) => !spec.includes('"virtualization":"kvm"'))
  return {
    ports: guests.flatMap(expectedPorts).sort(),
    firewalls: guests.flatMap(expectedFirewall).sort(),
    limits: containers.map(expectedLimits).sort(),
    rates: running.flatMap(expectedRates).sort(),
    innerAddresses: containers.flatMap(({ name, ipv6 }) => ipv6.map((one) => `${name} ${digitsOf(one)}`)).sort(),
  }
}

function expectedPorts({ ipv4, ipv6: [ipv6], mappings }: Guest): string[] {
  return mappings.flatMap((mapping) => [
    ...elementsFor(mapping, { suffix: '', all: '0.0.0.0/0', target: ipv4 }),
    ...(ipv6 === undefined ? [] : elementsFor(mapping, { suffix: '6', all: '::/0', target: ipv6 })),
  ])
}

/** Returns nft's map entries for a mapping: one per port, or one for a range with equal host and container ports. */
function elementsFor(
  { protocol, host_port: first, host_port_end: last, container_port: inner }: MappingRow,
  { suffix, all, target }: { suffix: string; all: string; target: string },
): string[] {
  const number = protocol === 'tcp' ? 6 : 17
  if (last > first && first === inner) return [`port_ranges${suffix} ${all} . ${number} . ${first}-${last} : ${target}`]
  return Array.from(
    { length: last - first + 1 },
    (_, i) => `ports${suffix} ${number} . ${first + i} : ${target} . ${inner + i}`,
  )
}

interface Firewall {
  enabled: boolean
  defaultAction: 'ACCEPT' | 'DROP'
  rules: { direction: string; action: 'ACCEPT' | 'DROP'; port: string }[]
}

/** Returns the rules that a firewall should have on the host. Each rule must be only for IPv4 or only for IPv6. */
function expectedFirewall({ spec, device, ipv4, ipv6 }: Guest): string[] {
  const { firewall = {} } = JSON.parse(spec) as { firewall?: Partial<Firewall> }
  if (!firewall.enabled) return []
  const verdicts = { ACCEPT: 'return', DROP: 'drop' }
  return ['in', 'out'].flatMap((way) => {
    const rules = firewall.rules?.filter(({ direction }) => direction === way) ?? []
    const verdict = verdicts[firewall.defaultAction ?? 'DROP']
    const chain = [...rules.map(({ port, action }) => `${port} ${verdicts[action]}`), verdict].join('; ')
    const jump = `jump ${way}_${device}`
    return [
      `${way}_${device}: ${chain}`,
      `firewall_${way} ${ipv4} : ${jump}`,
      ...ipv6.map((address) => `firewall_${way}6 ${address} : ${jump}`),
    ]
  })
}

interface Limits {
  vcpuMilli: number
  ramMb: number
  networkDownMbps: number
  networkUpMbps: number
  ioReadMbps: number
  ioWriteMbps: number
}

function limitsOf({ spec }: Guest): Limits {
  return (JSON.parse(spec) as { limits: Limits }).limits
}

function expectedLimits(guest: Guest): string {
  const { vcpuMilli, ramMb, ioReadMbps, ioWriteMbps } = limitsOf(guest)
  return [guest.name, ramMb * 1024 ** 2, vcpuMilli * 100, ioReadMbps * 1e6, ioWriteMbps * 1e6].join(' ')
}

function expectedRates(guest: Guest): string[] {
  const { networkDownMbps: down, networkUpMbps: up } = limitsOf(guest)
  return [...(down > 0 ? [`${guest.device} ${down}`] : []), ...(up > 0 ? [`${guest.device}u ${up}`] : [])]
}

/** Writes an IPv6 address, such as `2001:db8::7`, as 32 digits. */
function digitsOf(address: string): string {
  const [head = '', tail] = address.split('::')
  const groups = (text = ''): string[] => (text === '' ? [] : text.split(':'))
  const [before, after] = [groups(head), groups(tail)]
  const between = Array<string>(8 - before.length - after.length).fill('0')
  return [...before, ...(tail === undefined ? [] : between), ...after].map((group) => group.padStart(4, '0')).join('')
}
