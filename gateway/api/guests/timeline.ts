import { Type, type Static } from 'typebox'
import { clampTime, type TimeFormat } from '../../../shared/time.js'
import type { AuditStore } from '../../access/audit.js'
import type { AuditRecord } from '../../access/audit-record.js'
import type { Principal } from '../../access/principal.js'
import { actorDescription, ownNameOf, shownActor } from '../../access/shown-actor.js'
import { coversScope } from '../../access/scopes.js'
import type { FleetView, GuestView } from '../../fleet/contract.js'
import { route, type Route } from '../../http/route.js'
import { oneOf, TimeSchema } from '../../http/schema.js'
import { ContainerPathSchema } from './containers.js'
import { planTimeline, timelineKinds, type TimelineEntry } from './plan-timeline.js'

const most = 200
const days = 90

const EntrySchema = Type.Object(
  {
    time: TimeSchema,
    timestamp: Type.Integer({ description: 'Time in seconds since 1970.' }),
    kind: oneOf(
      timelineKinds,
      '`task`: a task. `change`: a changed setting, from the audit log. `alert`: detected abuse and the reaction to it. `policy`: a stop because of suspension, expiry or used-up traffic. `restart`: an automatic restart after the container ended unexpectedly.',
    ),
    action: Type.String({
      description:
        'If `kind` is `task`, `policy` or `restart`: the action of the task. `change`: the action in the audit log. `alert`: the type of the alert.',
    }),
    status: Type.String({
      description:
        'If `kind` is `task`, `policy` or `restart`: the status of the task. `change`: `success` or `failure`. `alert`: the severity of the alert.',
    }),
    user: Type.String({
      description: `Name of the caller. Empty: there was none, or it is not known. ${actorDescription}`,
    }),
    address: Type.String({
      description:
        'IP address of the caller. For an alert: IP address of the target of the abuse. Empty: not known, or the caller is hidden.',
    }),
    detail: Type.String(),
    task_id: Type.String({ description: 'Id of the task. Empty: the entry does not belong to a task.' }),
  },
  { title: 'TimelineEntry' },
)

export interface TimelineDeps {
  readonly view: FleetView
  readonly audit: AuditStore
  readonly time: TimeFormat
  /** Returns the present time in ms since 1970. */
  readonly now: () => number
}

/** Route that lists the events of a container from all sources that the caller may see. */
export function timelineRoute(deps: TimelineDeps): Route {
  return route({
    method: 'GET',
    path: '/containers/{id}/timeline',
    name: 'getTimeline',
    subUser: 'allowed',
    scope: 'container:read',
    bound: 'guest',
    tag: 'Containers',
    summary: `Lists the events of a container, newest first. The scope \`task:read\` includes tasks, and \`security:read\` includes alerts. \`audit:read\` includes all changes of the last ${days} days; without it, only the caller’s own changes are included`,
    params: ContainerPathSchema,
    query: Type.Object({
      limit: Type.Optional(
        Type.Integer({ minimum: 1, maximum: most, description: 'Maximum number of entries. Default: 100.' }),
      ),
    }),
    data: Type.Array(EntrySchema),
    handle: async ({ caller, guest, query: { limit = 100 } }) => {
      const entries = planTimeline(await readSources(deps, caller, guest), limit)
      return { data: entries.map((entry) => entryRow(entry, deps.time, ownNameOf(caller))) }
    },
  })
}

async function readSources({ view, audit, now }: TimelineDeps, caller: Principal, { hostId, guest }: GuestView) {
  const may = (scope: string): boolean => coversScope(caller.scopes, scope)
  const { uuid } = guest
  return {
    operations: may('task:read') ? view.operationsOf([uuid]) : [],
    audit: await readAudit({ audit, now }, caller, uuid),
    alerts: may('security:read') ? view.alerts(hostId).filter(({ alert }) => alert.guestUuid === uuid) : [],
  }
}

/** Reads audit entries. Callers without permission for the audit log see only their own actions. */
async function readAudit(
  { audit, now }: Pick<TimelineDeps, 'audit' | 'now'>,
  { ref, scopes }: Principal,
  uuid: string,
): Promise<readonly AuditRecord[]> {
  const by = coversScope(scopes, 'audit:read') ? undefined : ref
  const fromMs = now() - days * 86_400_000
  const filter = { by, fromMs, guests: new Set([uuid]), counted: false }
  const { records } = await audit.read(filter, { page: 1, size: most })
  return records
}

function entryRow(entry: TimelineEntry, time: TimeFormat, ownName: string | undefined): Static<typeof EntrySchema> {
  const user = shownActor(entry.user, ownName)
  const atMs = clampTime(entry.atMs)
  return {
    time: time.format(atMs),
    timestamp: Math.floor(atMs / 1000),
    kind: entry.kind,
    action: entry.action,
    status: entry.status,
    user,
    address: user === entry.user ? entry.address : '',
    detail: entry.detail,
    task_id: entry.taskId,
  }
}
