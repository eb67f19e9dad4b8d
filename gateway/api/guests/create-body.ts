import { Type, type Static } from 'typebox'
import {
  defaultSnapshotLimit,
  limits,
  maxUserDataLength,
  sshPasswordRule,
  templateIdPattern,
} from '../../../shared/guest-rules.js'
import { DevicesSchema } from './device-schema.js'
import { VirtualizationSchema } from './guest-row.js'
import { trimmed } from '../../http/normalize.js'
import { oneOf } from '../../http/schema.js'
import {
  ExpirySchema,
  ipv4Fields,
  ipv6ListFields,
  MappingBodySchema,
  rateFields,
  trafficFields,
  vcpuBounds,
  integerWithin,
} from './setting-schemas.js'

const optional = Type.Optional

/** Fields for the login of the container's root. @param modes description of `ssh_auth_mode` */
export function loginFields(modes: string) {
  return {
    ssh_auth_mode: optional(oneOf(['auto_password', 'password', 'key', 'keep'], modes)),
    ssh_password: optional(
      Type.String({
        maxLength: 1024,
        description: `Must be ${sshPasswordRule}. Used in \`password\` mode, ignored in other modes.`,
      }),
    ),
    ssh_public_key: optional(
      Type.String({
        ...trimmed,
        maxLength: 16_384,
        description:
          'One line in the format of OpenSSH, without options: Ed25519, ECDSA, RSA of at least 2048 bits, or a security ' +
          'key. Certificates and DSA keys are refused. Used in `key` mode, ignored in other modes.',
      }),
    ),
  }
}

export const TemplateIdSchema = Type.String({
  ...trimmed,
  pattern: templateIdPattern,
  description: 'An id of `GET /templates`: lower-case letters, digits, ".", "-".',
})

/** Body of `POST /containers`. Unknown fields are ignored. */
export const CreateBodySchema = Type.Object(
  {
    name: Type.String({
      ...trimmed,
      description: '1 to 63 letters, digits, ".", "_", "-"; not all digits, not a uuid; unique in the fleet.',
    }),
    virtualization: optional(VirtualizationSchema),
    template_id: TemplateIdSchema,
    vcpu: optional(Type.Number({ ...vcpuBounds, description: 'May be fractional. Default 1.' })),
    ram_mb: integerWithin(limits.ramMb, 'Default 512.'),
    disk_gb: integerWithin(limits.diskGb, 'Default 10.'),
    host_id: optional(
      Type.String({ ...trimmed, maxLength: 64, description: 'Default: the host with most room.' }),
    ),
    start: optional(Type.Boolean({ description: 'Start once created. Default true.' })),
    assign_nat: optional(Type.Boolean({ description: 'Default true; false leaves no room for mappings.' })),
    port_mapping_count: integerWithin(
      limits.portMappings,
      'NAT mappings to pick: the first leads to container port 22, the others to the container port of the ' +
        'same number as their host port. 0 is as if it were absent: 1, or 0 where nat_port_mappings lead to port 22.',
    ),
    nat_port_mappings: optional(
      Type.Array(MappingBodySchema, {
        maxItems: limits.portMappings.max,
        description: 'Explicit mappings; host_port 0 or absent: pick one.',
      }),
    ),
    extra_ports: optional(
      Type.Unknown({
        description:
          'Array of container ports, each mapped to a picked host port unless it is mapped already. Any other type is ignored.',
      }),
    ),
    ...ipv4Fields,
    assign_ipv6: optional(Type.Boolean({ description: 'One, where neither count nor list says more.' })),
    ...ipv6ListFields,
    ...loginFields(
      'Absent: `password` or `key` where that field alone is sent, else auto_password. `keep` is for reinstall only.',
    ),
    expires_at: optional(ExpirySchema),
    ...rateFields,
    ...trafficFields,
    snapshot_limit: integerWithin(
      limits.snapshots,
      `Snapshots that it may have. Default ${defaultSnapshotLimit}; 0: none.`,
    ),
    devices: optional(DevicesSchema),
    user_data: optional(
      Type.String({
        maxLength: maxUserDataLength,
        description:
          'First-boot data for virtual machines, in a form of cloud-init: a script with `#!`, `#cloud-config`, ' +
          '`#cloud-config-archive`, `#cloud-config-jsonp`, `#cloud-boothook`, `#include`, `#include-once`, ' +
          '`#part-handler`, `## template: jinja`, or a MIME message. It may be gzip data or UTF-16 as base64. Data that ' +
          'the system would ignore is refused with the reason. For Windows: a form of cloudbase-init.',
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
