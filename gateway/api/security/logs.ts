import { Type, type Static } from 'typebox'
import { notFound } from '../../../shared/errors.js'
import type { TimeFormat } from '../../../shared/time.js'
import type { SecurityLog } from '../../../proto/gen/berth/agent/v1/security.js'
import { mayFind, maySee, type Principal } from '../../access/principal.js'
import type { Fleet } from '../../fleet/contract.js'
import { listAnswer, listQuery } from '../../http/list.js'
import { containerRef } from '../../http/normalize.js'
import { route, type Route } from '../../http/route.js'
import { TimeSchema } from '../../http/schema.js'
import { getNamedHost } from '../host-choice.js'
import type { SecurityDeps } from './alerts.js'

const LogRowSchema = Type.Object(
  {
    src_ip: Type.String(),
    dst_ip: Type.String(),
    src_port: Type.Integer({
      description: 'Source port of the connection. 0: it was not recorded, or the protocol has no ports.',
    }),
    dst_port: Type.Integer(),
    protocol: Type.String(),
    state: Type.String({
      description:
        'State of the connection. Current connections: the state that conntrack(8) shows. Recorded connections: `OPENED`, `REFUSED`, `UNREPLIED` or `REPLIED`.',
    }),
    timestamp: TimeSchema,
    container_id: Type.Integer(),
    container_name: Type.String(),
    host_id: Type.String(),
  },
  { title: 'SecurityLog' },
)
type LogRow = Static<typeof LogRowSchema>

/** A row and its time, by which the rows of several hosts are sorted. */
interface TimedRow {
  readonly atMs: number
  readonly row: LogRow
}

const sortable = ['timestamp', 'src_ip', 'dst_ip', 'dst_port', 'protocol', 'state', 'container_name'] as const
const mostOfGuest = 100

const LogQuery = Type.Object({
  ...listQuery({ protocol: Type.String({ maxLength: 16 }), state: Type.String({ maxLength: 32 }) }).properties,
  container: Type.Optional(
    Type.String({
      ...containerRef,
      maxLength: 64,
      description: 'Name, UUID or numeric id of a container. Default: all containers.',
    }),
  ),
  host_id: Type.Optional(Type.String({ maxLength: 64, description: 'Id of the host. Default: all hosts.' })),
})

export function securityLogRoute({ fleet, time }: SecurityDeps): Route {
  return route({
    method: 'GET',
    path: '/security/logs',
    name: 'listSecurityLogs',
    scope: 'security:read',
    bound: 'own',
    subUser: 'refused',
    sortable,
    tag: 'Security',
    summary:
      'Lists the connections of containers that Berth recorded to detect abuse, newest first. With `container`, the list contains only recorded and current connections of this container, at most 100 rows. Without `container`, the list has at most 1000 rows from each host that is online and answers',
    query: LogQuery,
    data: Type.Array(LogRowSchema),
    errors: ['not_found', 'host_offline', 'agent_timeout'],
    handle: async ({ caller, query }) => {
      const { container, host_id: hostId } = query
      const rows =
        container === undefined
          ? await readAll({ fleet, time }, caller, hostId)
          : await readGuest({ fleet, time }, caller, container)
      return listAnswer(rows, query, { sortable, filters: ['protocol', 'state'] })
    },
  })
}

/** @throws {BerthError} `not_found`, `host_offline` */
async function readGuest({ fleet, time }: SecurityDeps, caller: Principal, ref: string): Promise<LogRow[]> {
  const found = fleet.view.findGuest(ref)
  if (!found || !mayFind(caller, found)) throw notFound('container')
  const { logs } = await fleet.agent(found.hostId).security.getSecurityLogs({ uuid: found.guest.uuid })
  const rows = logs.slice(0, mostOfGuest)
  return rows.map((log) => logRow({ ...log, guestUuid: found.guest.uuid }, found.hostId, { fleet, time }))
}

/**
 * Reads the logs of one host, or of all online hosts. If all are read, hosts that cannot be reached are omitted.
 * @throws {BerthError} `invalid_field`, or `host_offline` for a named host
 */
async function readAll(deps: SecurityDeps, caller: Principal, hostId: string | undefined): Promise<LogRow[]> {
  const { view } = deps.fleet
  if (hostId !== undefined) getNamedHost(view, hostId)
  const rows = hostId === undefined ? await readOnline(deps, caller) : await readHost(deps, caller, hostId)
  return rows.toSorted((a, b) => b.atMs - a.atMs).map(({ row }) => row)
}

/** Reads the logs of all online hosts. Skips failing hosts, because old agents only support logs of a single guest. */
async function readOnline(deps: SecurityDeps, caller: Principal): Promise<TimedRow[]> {
  const online = [...deps.fleet.view.hosts()].filter(({ state }) => state === 'online')
  const read = await Promise.allSettled(online.map(({ id }) => readHost(deps, caller, id)))
  return read.flatMap((result) => (result.status === 'fulfilled' ? result.value : []))
}

async function readHost(deps: SecurityDeps, caller: Principal, hostId: string): Promise<TimedRow[]> {
  const { logs } = await deps.fleet.agent(hostId).security.getSecurityLogs({ uuid: '' })
  return logs
    .filter(({ guestUuid }) => maySee(caller, guestUuid) && isOn(deps.fleet, hostId, guestUuid))
    .map((log) => ({ atMs: log.atMs, row: logRow(log, hostId, deps) }))
}

/** True if the guest is on this host. Other rows are ignored, because a faulty host could invent them. */
function isOn({ view }: Fleet, hostId: string, guestUuid: string): boolean {
  return view.findGuest(guestUuid)?.hostId === hostId
}

function logRow(
  log: SecurityLog,
  hostId: string,
  { fleet, time }: { readonly fleet: Fleet; readonly time: TimeFormat },
): LogRow {
  const guest = fleet.view.findGuest(log.guestUuid)?.guest
  return {
    src_ip: log.srcIp.slice(0, 45),
    dst_ip: log.dstIp.slice(0, 45),
    src_port: log.srcPort,
    dst_port: log.dstPort,
    protocol: log.protocol.slice(0, 16),
    state: log.state.slice(0, 32),
    timestamp: time.format(log.atMs),
    container_id: guest?.id ?? 0,
    container_name: guest?.name ?? '',
    host_id: hostId,
  }
}
