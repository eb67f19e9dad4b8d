import { BerthError, invalidField } from '../../shared/errors.js'
import {
  checkGuestName,
  checkSshPassword,
  descriptionPattern,
  limits as ranges,
  maxGuestId,
  parseSshPublicKey,
  templateIdPattern,
  uuidPattern,
} from '../../shared/guest-rules.js'
import {
  SshAuthMode,
  Virtualization,
  type CreateGuestRequest,
  type GuestLimits as WireLimits,
  type GuestSpec as WireSpec,
  type PortMapping as WireMapping,
} from '../../proto/gen/berth/agent/v1/guest.js'
import type { GuestLimits, PortMapping } from './record.js'

/** A create request that passed every rule; host ports 0 are still to be picked. */
export interface CreateOrder {
  operationId: string
  id: number
  uuid: string
  name: string
  requestedBy: string
  virtualization: 'lxc'
  templateId: string
  limits: GuestLimits
  portMappings: PortMapping[]
  login: { kind: 'auto' } | { kind: 'password'; password: string } | { kind: 'key'; publicKey: string }
  start: boolean
}

/**
 * The gateway checked the same rules; the agent trusts no one with its host.
 * @throws {BerthError} `invalid_field`, `missing_field`, `unsupported`
 */
export function parseCreate(request: CreateGuestRequest): CreateOrder {
  const { spec } = request
  if (!spec?.limits) throw new BerthError('invalid', 'missing_field', 'spec: missing', { field: 'spec' })
  checkGuestName(request.name)
  checkTemplateId(spec.templateId)
  return {
    operationId: parseUuid('operation_id', request.operationId),
    id: parseInteger('id', request.id, 1, maxGuestId),
    uuid: parseUuid('uuid', request.uuid),
    name: request.name,
    requestedBy: parseRequester(request.requestedBy),
    virtualization: parseVirtualization(spec.virtualization),
    templateId: spec.templateId,
    limits: parseLimits(spec.limits),
    portMappings: parseMappings(spec),
    login: parseLogin(spec),
    start: spec.start,
  }
}

/** @throws {BerthError} `invalid_field` */
export function parseUuid(field: string, value: string): string {
  if (!new RegExp(uuidPattern).test(value)) throw invalidField(field, `${field}: must be a lower-case uuid`)
  return value
}

/** Who asked, for the task list: one printable line. */
export function parseRequester(value: string): string {
  if (!new RegExp(descriptionPattern).test(value))
    throw invalidField('requested_by', 'requested_by: must be one line')
  return value
}

function checkTemplateId(id: string): void {
  if (!new RegExp(templateIdPattern).test(id)) throw invalidField('template_id', 'template_id: malformed')
}

function parseVirtualization(value: Virtualization): 'lxc' {
  if (value === Virtualization.VIRTUALIZATION_LXC) return 'lxc'
  if (value === Virtualization.VIRTUALIZATION_KVM)
    throw new BerthError('invalid', 'unsupported', 'virtualization: kvm is not available on this host', {
      field: 'virtualization',
    })
  throw invalidField('virtualization', 'virtualization: must be lxc or kvm')
}

function parseInteger(field: string, value: number, min: number, max: number): number {
  if (!Number.isSafeInteger(value) || value < min || value > max)
    throw invalidField(field, `${field}: must be an integer from ${min} to ${max}`)
  return value
}

function parseLimits(wire: WireLimits): GuestLimits {
  const within = (field: string, value: number, range: { min: number; max: number }): number =>
    parseInteger(field, value, range.min, range.max)
  const parsed = {
    vcpuMilli: within('vcpu', wire.vcpuMilli, ranges.vcpuMilli),
    ramMb: within('ram_mb', wire.ramMb, ranges.ramMb),
    diskGb: within('disk_gb', wire.diskGb, ranges.diskGb),
    networkDownMbps: within('network_down_mbps', wire.networkDownMbps, ranges.networkMbps),
    networkUpMbps: within('network_up_mbps', wire.networkUpMbps, ranges.networkMbps),
    ioReadMbps: within('io_read_mbps', wire.ioReadMbps, ranges.ioMbps),
    ioWriteMbps: within('io_write_mbps', wire.ioWriteMbps, ranges.ioMbps),
  }
  if (parsed.networkDownMbps || parsed.networkUpMbps)
    throw new BerthError('invalid', 'unsupported', 'network rates are not available yet', {
      field: 'network_down_mbps',
    })
  return parsed
}

function parseMappings(spec: WireSpec): PortMapping[] {
  if (!spec.assignNat) {
    if (spec.portMappings.length > 0) throw invalidField('port_mappings', 'port_mappings: need assign_nat')
    return []
  }
  if (spec.portMappings.length > ranges.portMappings.max)
    throw invalidField('port_mappings', `port_mappings: at most ${ranges.portMappings.max}`)
  return spec.portMappings.map(parseMapping)
}

function parseMapping(wire: WireMapping): PortMapping {
  if (wire.protocol !== 'tcp' && wire.protocol !== 'udp')
    throw invalidField('protocol', 'protocol: must be tcp or udp')
  if (!new RegExp(descriptionPattern).test(wire.description))
    throw invalidField('description', 'description: at most 200 printable characters on one line')
  return {
    protocol: wire.protocol,
    containerPort: parseInteger('container_port', wire.containerPort, 0, 65_535),
    hostPort: parseInteger('host_port', wire.hostPort, 0, 65_535),
    description: wire.description,
  }
}

function parseLogin(spec: WireSpec): CreateOrder['login'] {
  switch (spec.sshAuthMode) {
    case SshAuthMode.SSH_AUTH_MODE_AUTO_PASSWORD:
      return { kind: 'auto' }
    case SshAuthMode.SSH_AUTH_MODE_PASSWORD:
      checkSshPassword(spec.sshPassword)
      return { kind: 'password', password: spec.sshPassword }
    case SshAuthMode.SSH_AUTH_MODE_KEY:
      return { kind: 'key', publicKey: parseSshPublicKey(spec.sshPublicKey) }
    case SshAuthMode.SSH_AUTH_MODE_UNSPECIFIED:
    case SshAuthMode.UNRECOGNIZED:
      throw invalidField('ssh_auth_mode', 'ssh_auth_mode: must be auto_password, password or key')
  }
}
