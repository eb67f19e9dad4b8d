import { Type, type Static } from 'typebox'
import { Clean, Value } from 'typebox/value'
import { BerthError } from '../../shared/errors.js'
import { limits as ranges } from '../../shared/guest-rules.js'
import type { Range } from '../../shared/field-checks.js'
import { manifestName } from '../images/sources/container-export.js'
import type { GuestRecord } from '../guests/record/record.js'

/** Name of the archive's directory with the root file system. */
export const rootName = 'rootfs'
export const manifestFormat = 'berth-guest-export'
export const manifestVersion = 1

const within = ({ min, max }: Range) => Type.Integer({ minimum: min, maximum: max })
const port = Type.Integer({ minimum: 1, maximum: 65_535 })
const text = Type.String({ maxLength: 2000 })

const mappingSchema = Type.Object({
  protocol: Type.Union([Type.Literal('tcp'), Type.Literal('udp')]),
  host_ip: Type.String({ maxLength: 45 }),
  host_port: port,
  host_port_end: port,
  container_port: port,
  container_port_end: port,
  description: text,
})

const ruleSchema = Type.Object({
  direction: text,
  protocol: text,
  action: text,
  network: text,
  source_ip: text,
  port: text,
  description: text,
})

const guestSchema = Type.Object({
  name: text,
  template: text,
  limits: Type.Object({
    vcpu: Type.Number({ minimum: ranges.vcpuMilli.min / 1000, maximum: ranges.vcpuMilli.max / 1000 }),
    ram_mb: within(ranges.ramMb),
    disk_gb: within(ranges.diskGb),
    network_down_mbps: within(ranges.networkMbps),
    network_up_mbps: within(ranges.networkMbps),
    io_read_mbps: within(ranges.ioMbps),
    io_write_mbps: within(ranges.ioMbps),
    io_read_iops: within(ranges.iops),
    io_write_iops: within(ranges.iops),
  }),
  devices: Type.Array(text, { maxItems: 16 }),
  port_mappings: Type.Array(mappingSchema, { maxItems: ranges.portMappings.max }),
  firewall: Type.Object({
    enabled: Type.Boolean(),
    default_action: text,
    rules: Type.Array(ruleSchema, { maxItems: 1000 }),
  }),
  /** Kind of the login that Berth has set for root. */
  ssh_login: Type.Union([Type.Literal('password'), Type.Literal('key'), Type.Literal('none')]),
  tags: Type.Optional(Type.Array(text, { maxItems: 100 })),
  note: Type.Optional(text),
})

const manifestSchema = Type.Object({
  format: Type.Literal(manifestFormat),
  version: Type.Literal(manifestVersion),
  exported_at: Type.String({ maxLength: 40 }),
  guest: guestSchema,
})

/** Settings of an exported guest, without secrets. The format may only change together with its version. */
export type ExportManifest = Static<typeof manifestSchema>

export interface ManifestOptions {
  readonly nowMs: number
  /** True if the manifest contains note and tags, which only the provider sees. */
  readonly includeLabels: boolean
}

export function makeManifest(record: GuestRecord, { nowMs, includeLabels }: ManifestOptions): ExportManifest {
  const { name, spec, devices, labels } = record
  return {
    format: manifestFormat,
    version: manifestVersion,
    exported_at: new Date(nowMs).toISOString(),
    guest: {
      name,
      template: spec.templateId,
      limits: limitsOf(record),
      devices: [...devices],
      port_mappings: record.portMappings.map(mappingOf),
      firewall: firewallOf(record),
      ssh_login: record.login === null ? 'none' : record.hasPassword ? 'password' : 'key',
      ...(includeLabels && { tags: [...labels.tags], note: labels.note }),
    },
  }
}

function limitsOf({ spec: { limits } }: GuestRecord): ExportManifest['guest']['limits'] {
  return {
    vcpu: limits.vcpuMilli / 1000,
    ram_mb: limits.ramMb,
    disk_gb: limits.diskGb,
    network_down_mbps: limits.networkDownMbps,
    network_up_mbps: limits.networkUpMbps,
    io_read_mbps: limits.ioReadMbps,
    io_write_mbps: limits.ioWriteMbps,
    io_read_iops: limits.ioReadIops ?? 0,
    io_write_iops: limits.ioWriteIops ?? 0,
  }
}

function mappingOf(mapping: GuestRecord['portMappings'][number]): Static<typeof mappingSchema> {
  return {
    protocol: mapping.protocol,
    host_ip: mapping.hostIp,
    host_port: mapping.hostPort,
    host_port_end: mapping.hostPortEnd,
    container_port: mapping.containerPort,
    container_port_end: mapping.containerPortEnd,
    description: mapping.description,
  }
}

function firewallOf({ firewall }: GuestRecord): ExportManifest['guest']['firewall'] {
  const { enabled, defaultAction, rules } = firewall
  return {
    enabled,
    default_action: defaultAction,
    rules: rules.map(({ direction, protocol, action, network, sourceIp, port, description }) => ({
      direction,
      protocol,
      action,
      network,
      source_ip: sourceIp,
      port,
      description,
    })),
  }
}

/**
 * Parses the manifest of an archive, which anybody can have written. Drops unknown fields.
 * @throws {BerthError} `image_invalid` if it is damaged, or has another version
 */
export function parseManifest(raw: string): ExportManifest {
  const value = parseJson(raw)
  const { version } = (value ?? {}) as { version?: unknown }
  if (typeof version === 'number' && version > manifestVersion)
    throw badManifest(
      `its version is ${version}, and this version of Berth knows only ${manifestVersion}: upgrade Berth`,
    )
  if (Value.Check(manifestSchema, value)) return Clean(manifestSchema, value) as ExportManifest
  const [first] = Value.Errors(manifestSchema, value)
  throw badManifest(`${first?.instancePath || 'its content'} is not valid`)
}

function parseJson(raw: string): unknown {
  try {
    return JSON.parse(raw)
  } catch {
    return undefined
  }
}

function badManifest(why: string): BerthError {
  return new BerthError('invalid', 'image_invalid', `${manifestName} of the archive cannot be read: ${why}`)
}
