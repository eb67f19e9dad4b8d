import { Type, type Static } from 'typebox'
import {
  defaultSnapshotLimit,
  limits,
  maxUserDataLength,
  sshPasswordRule,
  templateIdPattern,
} from '../../../../shared/guest-rules.js'
import { NewBackupScheduleSchema } from '../backup-schedule-body.js'
import { DevicesSchema } from '../device-schema.js'
import { FirewallBodySchema } from '../firewall-body.js'
import { tagsSchema } from '../label-row.js'
import { PlacementSchema } from '../placement-row.js'
import { VirtualizationSchema } from '../guest-row.js'
import { trimmed, zeroIsAbsent } from '../../../http/normalize.js'
import { oneOf } from '../../../http/schema.js'
import {
  ExpirySchema,
  ipv4Fields,
  ipv6ListFields,
  MappingBodySchema,
  rateFields,
  trafficFields,
  vcpuBounds,
  integerWithin,
} from '../setting-schemas.js'

const optional = Type.Optional

/** Fields for root's login in the container. @param modes description of `ssh_auth_mode` */
export function loginFields(modes: string) {
  return {
    ssh_auth_mode: optional(oneOf(['auto_password', 'password', 'key', 'keep'], modes)),
    ssh_password: optional(
      Type.String({
        maxLength: 1024,
        description: `Password of the login, which must be ${sshPasswordRule}. Used if \`ssh_auth_mode\` is \`password\`, ignored in other modes.`,
      }),
    ),
    ssh_public_key: optional(
      Type.String({
        ...trimmed,
        maxLength: 16_384,
        description:
          'Public key that can log in: one line in the format of OpenSSH, without options; Ed25519, ECDSA, RSA of at least 2048 bits, or a security key. Certificates and DSA keys are refused. Used if `ssh_auth_mode` is `key`, ignored in other modes.',
      }),
    ),
  }
}

export const TemplateIdSchema = Type.String({
  ...trimmed,
  pattern: templateIdPattern,
  description: 'Id of a template, see `GET /templates`: lower-case letters, digits, "." and "-".',
})

/** Body of `POST /containers`. Unknown fields are ignored. */
export const CreateBodySchema = Type.Object(
  {
    name: Type.String({
      ...trimmed,
      description:
        '1 to 63 letters, digits, ".", "_" and "-". Must be unique in the fleet, must not consist of digits only, and must not be a UUID.',
    }),
    virtualization: optional(VirtualizationSchema),
    template_id: TemplateIdSchema,
    vcpu: optional(
      Type.Number({ ...vcpuBounds, description: 'Number of virtual CPUs. It may be fractional. Default: 1.' }),
    ),
    ram_mb: integerWithin(limits.ramMb, 'Memory in MiB. Default: 512.'),
    disk_gb: integerWithin(limits.diskGb, 'Disk size in GiB. Default: 10.'),
    host_id: optional(
      Type.String({
        ...trimmed,
        maxLength: 64,
        description: 'Id of the host. Default: the host with the most free resources.',
      }),
    ),
    start: optional(Type.Boolean({ description: '`true`: start the container after its creation. Default: `true`.' })),
    assign_nat: optional(
      Type.Boolean({ description: '`false`: the container gets no port mappings. Default: `true`.' }),
    ),
    port_mapping_count: integerWithin(
      limits.portMappings,
      'Number of NAT mappings for which Berth chooses the host port. The first one maps the login port of the container (22, for Windows 3389), unless `nat_port_mappings` already maps that port. Every further mapping has the same port number in the container and on the host. Omitted or 0: one mapping, or none if `nat_port_mappings` already maps the login port.',
    ),
    nat_port_mappings: optional(
      Type.Array(MappingBodySchema, {
        maxItems: limits.portMappings.max,
        description:
          'Port mappings with ports that the request chooses. If `host_port` of a mapping is omitted or 0, Berth chooses the host port.',
      }),
    ),
    extra_ports: optional(
      Type.Unknown({
        description:
          'Array of TCP ports of the container. Each port that has no other mapping is mapped to an automatically chosen host port. A value that is not an array is ignored.',
      }),
    ),
    ...ipv4Fields,
    assign_ipv6: optional(
      Type.Boolean({
        description:
          '`true`: assign one address if `ipv6_count` and `ipv6_addresses` request none. `false`: assign none; `ipv6_count` is ignored, and `ipv6_addresses` must be empty. If omitted, these two fields decide.',
      }),
    ),
    ...ipv6ListFields,
    ...loginFields(
      'How to log in. `auto_password`: with a generated password. `password`: with `ssh_password`. `key`: with `ssh_public_key`. Default: `password` or `key` if only the field of that mode is sent, else `auto_password`. `keep` is only allowed for reinstalls.',
    ),
    expires_at: optional(ExpirySchema),
    ...rateFields,
    ...trafficFields,
    snapshot_limit: integerWithin(
      limits.snapshots,
      `Maximum number of snapshots of the container. Default: ${defaultSnapshotLimit}. 0: no snapshots can be taken.`,
    ),
    devices: optional(DevicesSchema),
    placement: optional(PlacementSchema),
    tags: optional(tagsSchema('Tags of the container. Sub-users see them.')),
    owner_id: optional(
      Type.Integer({
        minimum: 1,
        maximum: Number.MAX_SAFE_INTEGER,
        ...zeroIsAbsent,
        description:
          'Id of the sub-user who gets the container. The caller needs the scope `subuser:update` and all permissions of the sub-user, as for `PATCH /sub-users/{id}`.',
      }),
    ),
    firewall: optional(FirewallBodySchema),
    backup_schedule: optional(NewBackupScheduleSchema),
    user_data: optional(
      Type.String({
        maxLength: maxUserDataLength,
        description:
          'First-boot data for virtual machines, in a format of cloud-init: a script that begins with `#!`, `#cloud-config`, ' +
          '`#cloud-config-archive`, `#cloud-config-jsonp`, `#cloud-boothook`, `#include`, `#include-once`, ' +
          '`#part-handler`, `## template: jinja`, or a MIME message. Gzip data and UTF-16 text must be encoded as base64. Data that ' +
          'the system would ignore is refused, and the error names the reason. For Windows: a format of cloudbase-init.',
      }),
    ),
  },
  { title: 'CreateContainer' },
)

export type CreateBody = Static<typeof CreateBodySchema>

export const createExample: CreateBody = {
  name: 'web1',
  virtualization: 'lxc',
  template_id: 'debian-12',
  vcpu: 1,
  ram_mb: 512,
  disk_gb: 5,
  assign_nat: true,
  port_mapping_count: 2,
  nat_port_mappings: [{ protocol: 'tcp', container_port: 80, host_port: 0, description: 'web' }],
  ssh_auth_mode: 'auto_password',
  expires_at: '2030-12-31 23:59:59',
  network_down_mbps: 100,
  network_up_mbps: 50,
}
