import { Type, type Static } from 'typebox'
import type { TimeFormat } from '../../../shared/time.js'
import { Capabilities, Capacity, HostDescription } from '../../../proto/gen/berth/agent/v1/host.js'
import { isBound, type Principal } from '../../access/principal.js'
import type { HostView } from '../../fleet/contract.js'
import { upgradeStateOf, upgradeSteps, type HostUpgrade } from '../../join/host-upgrade.js'
import { oneOf, TimeSchema, timeSchema } from '../../http/schema.js'
import { visibleWarnings } from '../guests/visible.js'
import { kvmFields, kvmRow } from './kvm.js'

const count = Type.Integer({ minimum: 0 })
export const StateSchema = oneOf(
  ['pending', 'online', 'offline'],
  'Status of the host. `pending`: no agent has joined yet.',
)

const InstallSchema = Type.Object({
  step: oneOf(
    ['checking', 'installing', 'joining', 'waiting', 'failed'],
    'Last reported step of the installation. `waiting`: the agent has joined and waits for the gateway to connect.',
  ),
  message: Type.String({ description: 'Details of the step, or the reason of the failure.' }),
  at: timeSchema('the host reported this step'),
})

const UpgradeSchema = Type.Object(
  {
    state: oneOf(['running', 'done', 'failed']),
    step: oneOf(
      upgradeSteps,
      '`starting`: the host has not reported anything yet. `waiting`: the version is installed and waits for the gateway to connect. `rolling_back`: the host returns to its earlier version, and `message` says why.',
    ),
    rollback: Type.Boolean({
      description:
        '`true`: a return to the previous version was requested. `false`: an upgrade, even if the host returns to the previous version after a failure.',
    }),
    from: Type.String({ description: 'Version of the agent before the upgrade or rollback.' }),
    to: Type.String({ description: 'Version of the agent that the upgrade or rollback installs.' }),
    message: Type.String({ description: 'Reason of a failure.' }),
    started_at: timeSchema('the upgrade or rollback began'),
    at: Type.String({ ...TimeSchema, description: 'Time of the host’s last report about this upgrade.' }),
  },
  { title: 'HostUpgrade' },
)

export const HostRowSchema = Type.Object(
  {
    id: Type.String(),
    name: Type.String(),
    address: Type.String({
      description:
        'Address, as host:port, at which the gateway connects to the agent. Empty: it is not known until the agent joins.',
    }),
    install: Type.Union([InstallSchema, Type.Null()], {
      description: 'Last step that the installation script reported. `null`: the script has not been used.',
    }),
    join_token_status: oneOf(
      ['none', 'valid', 'expired'],
      'State of the newest join token of the host. `none`: it was used, no token was created, or an older version created it.',
    ),
    upgrade: Type.Union([UpgradeSchema, Type.Null()], {
      description:
        'Last upgrade or rollback of the agent that was requested through this API. `null`: none was ever requested.',
    }),
    public_address: Type.String({
      description: 'DNS name or IP address at which clients reach the containers of the host. Empty: not known.',
    }),
    public_address_source: oneOf(
      ['set', 'guess', 'none'],
      'Origin of `public_address`. `set`: an administrator set it. `guess`: derived from the addresses of the host. `none`: the address is not known.',
    ),
    status: StateSchema,
    draining: Type.Boolean({ description: '`true`: the host is draining, and gets no new containers.' }),
    group: Type.String({
      description: 'Group of the host, to which `placement.group` of containers refers. Empty: none.',
    }),
    labels: Type.Array(Type.String(), {
      description: 'Labels of the host, to which `placement.labels` of containers refers.',
    }),
    containers: count,
    created_at: TimeSchema,
    last_seen: timeSchema('the host was last connected', 'it was never connected'),
    certificate_expires_at: timeSchema('the certificate of the host expires', 'the host has no certificate'),
    version: Type.String({ description: 'Version of the agent.' }),
    outdated: Type.Boolean({ description: '`true`: the agent has another version than this gateway.' }),
    features: Type.Array(Type.String(), {
      description:
        'Optional functions of the agent. `upgrade`: it can be upgraded with `POST /hosts/{id}/upgrade`. `fence`: it refuses calls of a gateway whose work another gateway has taken over.',
    }),
    previous_version: Type.String({
      description: 'Version that a rollback installs. Empty: the host retains no packages of a previous version.',
    }),
    hostname: Type.String(),
    kernel: Type.String(),
    lxc: Type.Boolean(),
    ...kvmFields,
    storage: Type.String(),
    cgroup_version: count,
    cpu_cores: count,
    ram_total_mb: count,
    disk_total_gb: count,
    warnings: Type.Array(Type.String()),
  },
  { title: 'Host' },
)
export type HostRow = Static<typeof HostRowSchema>

export interface HostRowParts {
  readonly caller: Principal
  readonly containers: number
  readonly time: TimeFormat
}

export function hostRow(host: HostView, { caller, containers, time }: HostRowParts): HostRow {
  const description = host.description ?? HostDescription.create()
  const capabilities = description.capabilities ?? Capabilities.create()
  const capacity = description.capacity ?? Capacity.create()
  return {
    id: host.id,
    name: host.name,
    address: host.address,
    install: host.install
      ? { step: host.install.step, message: host.install.message, at: time.format(host.install.atMs) }
      : null,
    join_token_status: host.joinToken,
    upgrade: host.upgrade ? upgradeRow(host.upgrade, time) : null,
    public_address: host.publicAddress.host,
    public_address_source: host.publicAddress.source,
    status: host.state,
    draining: host.draining,
    group: isBound(caller) ? '' : host.group,
    labels: isBound(caller) ? [] : [...host.labels],
    containers,
    created_at: time.format(host.createdAtMs),
    last_seen: time.format(host.lastSeenMs),
    certificate_expires_at: time.format(host.certificateNotAfterMs),
    version: description.version,
    outdated: host.outdated,
    features: description.features,
    previous_version: description.previousVersion,
    hostname: description.hostname,
    kernel: description.kernel,
    lxc: capabilities.lxc,
    ...kvmRow(description),
    storage: capabilities.storage,
    cgroup_version: capabilities.cgroupVersion,
    cpu_cores: capacity.cpuCores,
    ram_total_mb: capacity.ramTotalMb,
    disk_total_gb: capacity.diskTotalGb,
    warnings: visibleWarnings(caller, host.warnings),
  }
}

function upgradeRow(upgrade: HostUpgrade, time: TimeFormat): Static<typeof UpgradeSchema> {
  const { step, rollback, from, to, message, startedAtMs, atMs } = upgrade
  const times = { started_at: time.format(startedAtMs), at: time.format(atMs) }
  return { state: upgradeStateOf(upgrade), step, rollback, from, to, message, ...times }
}
