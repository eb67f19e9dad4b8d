import { Type, type Static } from 'typebox'
import type { Logger } from 'pino'
import { BerthError, conflict, notFound } from '../../../shared/errors.js'
import type { TimeFormat } from '../../../shared/time.js'
import type { BackupTargets } from '../../backups/targets.js'
import type { Drains } from '../../drains/drains.js'
import type { Gateways } from '../../gateways/gateways.js'
import { fenceHost, type FencingConfig } from '../../fencing/fence-host.js'
import type { Fleet, HostView } from '../../fleet/contract.js'
import type { PlannedEvacuation } from '../../fleet/move-contract.js'
import { route, type Answer, type Route } from '../../http/route.js'
import { oneOf, timeSchema } from '../../http/schema.js'
import { HostPathSchema } from './hosts.js'

const EvacuatedGuestSchema = Type.Object({
  container_uuid: Type.String(),
  name: Type.String(),
  to_host_id: Type.String({ description: 'Planned target. Empty: the container cannot be restored.' }),
  message: Type.String({ description: 'Reason why the container cannot be restored. Empty: it can.' }),
  backup_id: Type.String({ description: 'Id of the newest backup. Empty if the container has no backup.' }),
  backup_target_id: Type.String(),
  backup_is_local: Type.Boolean({
    description:
      '`true`: the backup is in a folder of the hosts (type `local`). It is lost if the folder was on a disk of the failed host, and not on a network file system.',
  }),
  backup_created_at: timeSchema('the newest backup was created', 'the container has no backup'),
  from_standby: Type.Boolean({
    description: '`true`: the container is started from its warm standby, which is newer than the backup.',
  }),
  standby_taken_at: timeSchema('the disk was captured for the warm standby', 'there is no complete copy'),
  lost_seconds: Type.Integer({
    description:
      'Age of the standby or backup that is used. All changes since then are lost. 0: there is no backup and no standby.',
  }),
})
const EvacuationSchema = Type.Object(
  {
    host_id: Type.String(),
    state: oneOf(['planned', 'running'], '`planned`: the answer to a dry run, which changed nothing.'),
    fences: Type.Boolean({ description: '`true`: the gateway runs the configured fencing program first.' }),
    containers: Type.Array(EvacuatedGuestSchema),
  },
  { title: 'Evacuation' },
)
type Evacuation = Static<typeof EvacuationSchema>

const BodySchema = Type.Object(
  {
    dry_run: Type.Optional(
      Type.Boolean({
        description:
          '`true`: only returns what would happen to each container, or the reason why it cannot be restored. The answer has the status 200.',
      }),
    ),
    confirm: Type.Optional(
      Type.String({
        maxLength: 256,
        description: 'Name of the host, which confirms the evacuation. Required without `dry_run`.',
      }),
    ),
    parallel: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: 20,
        description: 'Number of containers that are restored at the same time. Default: 2.',
      }),
    ),
  },
  { title: 'EvacuateHost' },
)

interface Parts {
  readonly fleet: Fleet
  readonly drains: Drains
  readonly gateways: Pick<Gateways, 'findOthersReaching'>
  readonly backupTargets: Pick<BackupTargets, 'list'>
  readonly fencing: FencingConfig
  readonly log: Logger
  readonly time: TimeFormat
}

export function evacuateRoute(parts: Parts): Route {
  return route({
    method: 'POST',
    path: '/hosts/{id}/evacuate',
    name: 'evacuateHost',
    scope: 'host:manage',
    bound: 'refused',
    audit: 'host.evacuate',
    tag: 'Hosts',
    summary:
      'Restores the containers of a failed host on other hosts, each from its warm standby or its newest backup, whichever is newer. Changes since then are lost. Usage history, earlier tasks and alerts are kept only with a warm standby. The host must be offline, and must really be off: otherwise its containers run twice. Each container keeps its id, UUID and name, and has its own result in `GET /hosts/{id}/drain`. If the host returns, it keeps the old disks, and does not start these containers',
    params: HostPathSchema,
    body: BodySchema,
    example: { dry_run: true },
    data: EvacuationSchema,
    statuses: [200, 202],
    errors: ['missing_field', 'invalid_field', 'invalid_state', 'drain_running', 'fencing_failed'],
    handle: async (context): Promise<Answer<Evacuation>> => {
      const { params, body, caller, operationId } = context
      // Directly after the gateway's start, even healthy hosts are offline until they connect.
      await parts.fleet.expectedConnections()
      const host = parts.fleet.view.findHost(params.id)
      if (!host) throw notFound('host')
      const isStarted = parts.drains.find(host.id)?.id === operationId
      if (!isStarted) await refuseReachable(parts, host)
      if (body.dry_run) {
        context.audit({ target: host.name, detail: `id ${host.id}, dry run` })
        return { message: 'nothing was changed', data: await planRow(parts, host, 'planned') }
      }
      checkConfirmed(host, body.confirm)
      context.audit({ target: host.name, detail: `id ${host.id}` })
      const data = await planRow(parts, host, 'running')
      if (!isStarted) await fence(parts, host.id)
      const settings = { mode: 'evacuate', parallel: body.parallel ?? 2, bandwidthMbps: 0, deadlineMs: 0 } as const
      await parts.drains.begin(parts.fleet, { ...settings, id: operationId, hostId: host.id, startedBy: caller.user })
      return { status: 202, message: 'the evacuation of the host has started', data }
    },
  })
}

/** Turns the host off. @throws {BerthError} `drain_running`, `fencing_failed`, `invalid_state` */
async function fence(parts: Parts, hostId: string): Promise<void> {
  const { fleet, drains, fencing, log } = parts
  drains.refuseDisturbance(hostId, 'evacuate')
  await fenceHost(fencing, fleet.view.findHost(hostId)!, log)
  const host = fleet.view.findHost(hostId)
  if (host) await refuseReachable(parts, host) // the host may have returned while the program ran
}

/** @throws {BerthError} `invalid_state` if this gateway or another one is connected to the host */
async function refuseReachable({ gateways }: Parts, { id, state }: HostView): Promise<void> {
  if (state !== 'offline')
    throw conflict('invalid_state', `the host is ${state}: only a host that is offline can be evacuated`)
  const [other] = await gateways.findOthersReaching(id)
  if (other !== undefined)
    throw conflict(
      'invalid_state',
      `the gateway ${other} is connected to the host: only a host that no gateway reaches can be evacuated`,
    )
}

/** @throws {BerthError} `missing_field`, `invalid_field` */
function checkConfirmed({ name }: HostView, confirm: string | undefined): void {
  if (confirm === name) return
  const isMissing = confirm === undefined
  const message = isMissing
    ? 'confirm: is required, and must be the name of the host'
    : 'confirm: must be the name of the host'
  throw new BerthError('invalid', isMissing ? 'missing_field' : 'invalid_field', message, { field: 'confirm' })
}

async function planRow(
  { fleet, fencing, backupTargets, time }: Parts,
  { id }: HostView,
  state: Evacuation['state'],
): Promise<Evacuation> {
  const planned = await fleet.relocation.evacuations.planAll([...fleet.view.guestsOf(id)])
  const local = (await backupTargets.list())
    .filter(({ shown }) => shown.type === 'local')
    .map(({ id: targetId }) => targetId)
  const facts = { local: new Set(local), time, nowMs: Date.now() }
  const containers = planned.map((one) => rowOf(one, facts))
  return { host_id: id, state, fences: fencing.program !== '', containers }
}

interface RowFacts {
  /** Ids of the backup targets with the type `local`. */
  readonly local: ReadonlySet<string>
  readonly time: TimeFormat
  readonly nowMs: number
}

function rowOf(
  { guest: { guest }, toHostId, message, backup, standby, isFromStandby }: PlannedEvacuation,
  { local, time, nowMs }: RowFacts,
): Evacuation['containers'][number] {
  const createdAtMs = backup?.createdAtMs ?? 0
  const usedAtMs = isFromStandby ? standby!.takenAtMs : createdAtMs
  return {
    container_uuid: guest.uuid,
    name: guest.name,
    to_host_id: toHostId,
    message,
    backup_id: backup?.backupId ?? '',
    backup_target_id: backup?.targetId ?? '',
    backup_is_local: backup !== undefined && local.has(backup.targetId),
    backup_created_at: time.format(createdAtMs),
    from_standby: isFromStandby,
    standby_taken_at: time.format(standby?.takenAtMs ?? 0),
    lost_seconds: usedAtMs === 0 ? 0 : Math.max(0, Math.round((nowMs - usedAtMs) / 1000)),
  }
}
