import { BerthError, invalidField } from '../../shared/errors.js'
import type { TimeFormat } from '../../shared/time.js'
import { checkGuestName, checkSshPassword, limits, parseSshPublicKey } from '../../shared/guest-rules.js'
import {
  SshAuthMode,
  Virtualization,
  type GuestSpec,
  type PortMapping,
} from '../../proto/gen/berth/agent/v1/guest.js'
import type { CreateBody } from './create-body.js'

/**
 * The guest that a validated create request asks for.
 * @throws {BerthError} `invalid_field`; `unsupported` naming the first field that asks for what does not exist yet
 */
export function planCreate(body: CreateBody, time: TimeFormat): { name: string; spec: GuestSpec } {
  checkName(body.name)
  const login = planLogin(body)
  time.parseField('expires_at', body.expires_at ?? '')
  refuseUnsupported(body)
  const assignNat = body.assign_nat ?? true
  return {
    name: body.name,
    spec: {
      virtualization: Virtualization.VIRTUALIZATION_LXC,
      templateId: body.template_id,
      limits: {
        vcpuMilli: Math.round((body.vcpu ?? 1) * 1000),
        ramMb: body.ram_mb ?? 512,
        diskGb: body.disk_gb ?? 10,
        networkDownMbps: 0,
        networkUpMbps: 0,
        ioReadMbps: 0,
        ioWriteMbps: 0,
      },
      assignNat,
      portMappings: assignNat ? planMappings(body) : refuseMappings(body),
      ...login,
      start: body.start ?? true,
    },
  }
}

/** A container of this name could not be read by it: the path is taken. */
const takenPaths = ['list']

function checkName(name: string): void {
  checkGuestName(name)
  if (takenPaths.includes(name)) throw invalidField('name', `name: ${name} is reserved`)
}

type Login = Pick<GuestSpec, 'sshAuthMode' | 'sshPassword' | 'sshPublicKey'>

function planLogin(body: CreateBody): Login {
  const password = body.ssh_password ?? ''
  const keyLine = body.ssh_public_key ?? ''
  // What a mode does not use is checked all the same: whoever sends it believes it counts.
  if (password !== '') checkSshPassword(password)
  const sshPublicKey = keyLine === '' ? '' : parseSshPublicKey(keyLine)
  switch (body.ssh_auth_mode ?? 'auto_password') {
    case 'auto_password':
      return { sshAuthMode: SshAuthMode.SSH_AUTH_MODE_AUTO_PASSWORD, sshPassword: '', sshPublicKey: '' }
    case 'password':
      if (password === '') throw missing('ssh_password', 'password')
      return { sshAuthMode: SshAuthMode.SSH_AUTH_MODE_PASSWORD, sshPassword: password, sshPublicKey: '' }
    case 'key':
      if (sshPublicKey === '') throw missing('ssh_public_key', 'key')
      return { sshAuthMode: SshAuthMode.SSH_AUTH_MODE_KEY, sshPassword: '', sshPublicKey }
    case 'keep':
      throw invalidField('ssh_auth_mode', 'ssh_auth_mode: keep is for reinstall only')
  }
}

function missing(field: string, mode: string): BerthError {
  return new BerthError('invalid', 'missing_field', `${field}: is required in ${mode} mode`, { field })
}

/** What each of these asks for comes later; until then it is refused rather than dropped. */
function refuseUnsupported(body: CreateBody): void {
  const field = findUnsupported(body)
  if (field !== undefined)
    throw new BerthError('invalid', 'unsupported', `${field}: is not available yet`, { field })
}

function findUnsupported(body: CreateBody): string | undefined {
  const asks: [string, boolean][] = [
    ['virtualization', body.virtualization === 'kvm'],
    ['assign_ipv4', body.assign_ipv4 === true],
    ['ipv4_count', body.assign_ipv4 !== false && isSet(body.ipv4_count)],
    ['public_ipv4s', isSet(body.public_ipv4s)],
    ['assign_ipv6', body.assign_ipv6 === true],
    ['ipv6_count', body.assign_ipv6 !== false && isSet(body.ipv6_count)],
    ['ipv6_addresses', isSet(body.ipv6_addresses)],
    ['traffic_mode', (body.traffic_mode ?? 'total') !== 'total'],
    ...(body.nat_port_mappings ?? []).map(({ host_ip: hostIp }, index): [string, boolean] => [
      `nat_port_mappings.${index}.host_ip`,
      isSet(hostIp),
    ]),
    ...laterFields.map((field): [string, boolean] => [field, isSet(body[field])]),
  ]
  return asks.find(([, asked]) => asked)?.[0]
}

const laterFields = [
  'expires_at',
  'network_down_mbps',
  'network_up_mbps',
  'io_read_mbps',
  'io_write_mbps',
  'network_bw_mbps',
  'io_speed_mbps',
  'monthly_traffic_gb',
  'traffic_in_gb',
  'traffic_out_gb',
  'snapshot_limit',
  'user_data',
] as const

function isSet(value: number | string | readonly unknown[] | undefined): boolean {
  if (value === undefined) return false
  return typeof value === 'number' ? value > 0 : value.length > 0
}

/** The one to SSH first, then the picked ones, the extra ports, the explicit ones. */
function planMappings(body: CreateBody): PortMapping[] {
  const explicit = explicitMappings(body)
  const ssh = explicit.filter(leadsToSsh)
  const picked = pickedMappings(body.port_mapping_count ?? (ssh.length > 0 ? 0 : 1), ssh.length > 0)
  const extra = extraPorts(body.extra_ports).map(pickedTo)
  const mappings = [...ssh, ...picked, ...extra, ...explicit.filter((mapping) => !leadsToSsh(mapping))]
  if (mappings.length > limits.portMappings.max)
    throw invalidField('port_mapping_count', `at most ${limits.portMappings.max} port mappings`)
  refuseDoubleHostPorts(mappings)
  return mappings
}

function explicitMappings(body: CreateBody): PortMapping[] {
  return (body.nat_port_mappings ?? []).map((wanted) => ({
    containerPort: wanted.container_port,
    hostPort: wanted.host_port ?? 0,
    protocol: wanted.protocol ?? 'tcp',
    description: wanted.description ?? '',
  }))
}

function leadsToSsh(mapping: PortMapping): boolean {
  return mapping.containerPort === 22 && mapping.protocol === 'tcp'
}

function pickedMappings(count: number, sshIsMapped: boolean): PortMapping[] {
  // Container port 0: the one of the same number as the host port that the agent picks.
  return Array.from({ length: count }, (_, index) => pickedTo(index === 0 && !sshIsMapped ? 22 : 0))
}

function pickedTo(containerPort: number): PortMapping {
  return { containerPort, hostPort: 0, protocol: 'tcp', description: containerPort === 22 ? 'SSH' : '' }
}

/** One client sends a field of this name that means something else; only a list of ports is taken. */
function extraPorts(value: unknown): number[] {
  if (!Array.isArray(value)) return []
  return value.map((port: unknown) => {
    if (typeof port === 'number' && Number.isInteger(port) && port >= 1 && port <= 65_535) return port
    throw invalidField('extra_ports', 'extra_ports: must be integers from 1 to 65535')
  })
}

function refuseDoubleHostPorts(mappings: readonly PortMapping[]): void {
  const fixed = mappings.filter((m) => m.hostPort !== 0).map((m) => `${m.protocol} ${m.hostPort}`)
  if (new Set(fixed).size < fixed.length)
    throw invalidField('nat_port_mappings', 'nat_port_mappings: a host port is there twice')
}

function refuseMappings(body: CreateBody): PortMapping[] {
  const asks: [string, boolean][] = [
    ['nat_port_mappings', isSet(body.nat_port_mappings)],
    ['port_mapping_count', isSet(body.port_mapping_count)],
    ['extra_ports', isSet(extraPorts(body.extra_ports))],
  ]
  const field = asks.find(([, asked]) => asked)?.[0]
  if (field !== undefined) throw invalidField(field, `${field}: needs assign_nat`)
  return []
}
