import { isDeepStrictEqual } from 'node:util'
import type { Guest, GuestStandby } from '../../../proto/gen/berth/agent/v1/guest.js'
import { HostMetrics } from '../../../proto/gen/berth/agent/v1/host.js'
import type { TimeFormat } from '../../../shared/time.js'
import type { AlertView, GuestView, HostView, OperationView } from '../../fleet/contract.js'
import { upgradeStateOf } from '../../join/host-upgrade.js'
import { operationStatusOf } from '../../fleet/lists/operation-table.js'
import { isDeleted } from '../../fleet/guest-status.js'
import { changesOf } from '../../fleet/host-windows.js'
import { guestUuidOf } from '../../fleet/operation-subject.js'
import type { Describe, EventContent, EventType } from '../../events/event.js'
import { differsForCustomer, guestRow } from '../guests/guest-row.js'
import { windowFields } from '../guests/maintenance-row.js'
import { alertRow } from '../security/alert-row.js'
import { taskRow } from '../tasks/task-row.js'

interface Pair<View> {
  readonly before?: View
  readonly after?: View
}

/** Converts changes to events. Events contain rows as the API returns them. Container rows omit the sub-users. */
export function createDescribe(time: TimeFormat): Describe {
  return (change, hostId) => {
    switch (change.kind) {
      case 'guest':
        return guestEvents(change, hostId, time)
      case 'task':
        return [taskEvent(change, hostId, time)]
      case 'alert':
        return [alertEvent(change, hostId, time)]
      case 'host':
        return [...hostEvents(change, hostId, time), ...maintenanceEvents(change, hostId, time)]
      case 'usage':
        return [{ type: 'usage.host', hostId, guestUuid: '', data: JSON.stringify(usageRow(change.after, time)) }]
    }
  }
}

function guestEvents(pair: Pair<GuestView>, hostId: string, time: TimeFormat): EventContent[] {
  const { before, after } = pair
  const { uuid, id, name } = (after ?? before)!.guest
  const removed = JSON.stringify({ id, uuid, name, host_id: hostId })
  const data = after ? JSON.stringify(guestRow(after, time)) : removed
  const types = guestTypes(pair)
  return types.map((type) => {
    const customer = customerEvent(type, pair, { removed, time })
    return { type, hostId, guestUuid: uuid, data, ...(customer !== undefined && { customer }) }
  })
}

function guestTypes(pair: Pair<GuestView>): EventType[] {
  const { before, after } = pair
  const suspension = suspensionType(pair)
  const deletion = deletionType(pair)
  const isMoved = before && after && before.hostId !== after.hostId
  return [
    ...(isOnlyIncrement(pair) ? [] : [guestType(pair)]),
    ...(suspension ? [suspension] : []),
    ...(deletion ? [deletion] : []),
    ...(isMoved ? (['guest.moved'] as const) : []),
    ...(hasStandbyFailed(pair) ? (['guest.standby_failed'] as const) : []),
  ]
}

function guestType({ before, after }: Pair<GuestView>): EventType {
  if (after === undefined) return 'guest.removed'
  return before ? 'guest.updated' : 'guest.created'
}

/** True if only the result of an increment has changed. Rows of guests do not show this result. */
function isOnlyIncrement({ before, after }: Pair<GuestView>): boolean {
  const [was, is] = [before?.guest, after?.guest]
  if (!was?.standby || !is?.standby || was.standby === is.standby || before?.hostId !== after?.hostId) return false
  return isDeepStrictEqual(withoutResult(was, was.standby), withoutResult(is, is.standby))
}

function withoutResult({ revision: _revision, ...guest }: Guest, standby: GuestStandby): object {
  const { standbyId, hostId, intervalMinutes, bandwidthMbps } = standby
  return { ...guest, standby: { standbyId, hostId, intervalMinutes, bandwidthMbps } }
}

/**
 * Returns the event for listeners that may access only some guests. They see a deletion as a removal of the guest, and
 * an undone deletion as a new guest. `undefined`: they get the same event as other listeners. `null`: they get no
 * event.
 */
function customerEvent(
  type: EventType,
  { before, after }: Pair<GuestView>,
  { removed, time }: { readonly removed: string; readonly time: TimeFormat },
): EventContent['customer'] {
  const row = after && JSON.stringify(guestRow(after, time, 'customer'))
  if (type === 'guest.deleted') return { type: 'guest.removed', data: removed }
  if (type === 'guest.standby_failed') return null
  if (type === 'guest.undeleted') return { type: 'guest.created', data: row! }
  if (before && isDeleted(before.guest)) return null
  if (after && isDeleted(after.guest)) return null
  return after && differsForCustomer(after) ? { type, data: row! } : undefined
}

/** Failed increments in a row after which a standby counts as failing. */
const standbyFailures = 3

function hasStandbyFailed({ before, after }: Pair<GuestView>): boolean {
  const [was = 0, is = 0] = [before, after].map((view) => view?.guest.standby?.failures)
  return before !== undefined && was < standbyFailures && is >= standbyFailures
}

function suspensionType({ before, after }: Pair<GuestView>): EventType | undefined {
  if (!before || !after) return undefined
  const [was, is] = [before, after].map(({ guest }) => guest.suspension !== undefined)
  if (was === is) return undefined
  return is ? 'guest.suspended' : 'guest.unsuspended'
}

function deletionType({ before, after }: Pair<GuestView>): EventType | undefined {
  if (!before || !after || isDeleted(before.guest) === isDeleted(after.guest)) return undefined
  return isDeleted(after.guest) ? 'guest.deleted' : 'guest.undeleted'
}

function taskEvent({ before, after }: Pair<OperationView>, hostId: string, time: TimeFormat): EventContent {
  const view = (after ?? before)!
  const { id, requestedBy } = view.operation
  const row = after ? taskRow(after, time, undefined) : { task_id: id, id, host_id: hostId }
  const content = { type: taskType(before, after), hostId, guestUuid: guestUuidOf(view.operation) }
  return { ...content, data: JSON.stringify(row), ...(after && { actor: requestedBy }) }
}

/** The event type contains the task's new status. If the status has not changed, the type is `task.progress`. */
function taskType(before: OperationView | undefined, after: OperationView | undefined): EventType {
  if (after === undefined) return 'task.removed'
  const status = operationStatusOf(after.operation)
  if (before && operationStatusOf(before.operation) === status) return 'task.progress'
  return `task.${status}`
}

function alertEvent({ before, after }: Pair<AlertView>, hostId: string, time: TimeFormat): EventContent {
  const view = (after ?? before)!
  const { id, guestUuid } = view.alert
  const type = after === undefined ? 'alert.removed' : before ? 'alert.updated' : 'alert.raised'
  const row = after ? alertRow(after, time) : { id, host_id: hostId, container_uuid: guestUuid }
  return { type, hostId, guestUuid, data: JSON.stringify(row) }
}

/**
 * Describes a change of a host. Callers that may access only some containers cannot see hosts. They get a second event,
 * which reports that their containers on this host became unreachable or reachable.
 */
function hostEvents({ before, after }: Pair<HostView>, hostId: string, time: TimeFormat): EventContent[] {
  const type = hostType(before, after)
  if (type === undefined) return []
  const ended =
    before && after
      ? [...upgradeEvents(before, after), ...drainEvents(before, after), ...fencedEvents(before, after)]
      : []
  const row = after ? hostEventRow(after, time) : { id: hostId, name: before?.name ?? '' }
  const event: EventContent = { type, hostId, guestUuid: '', data: JSON.stringify(row) }
  if (type !== 'host.online' && type !== 'host.offline') return [event, ...ended]
  const data = JSON.stringify({ host_id: hostId, online: type === 'host.online' })
  return [event, { type: 'guest.host', hostId, guestUuid: '', data }, ...ended]
}

/** Returns an event if an upgrade or rollback has just ended. */
function upgradeEvents(before: HostView, after: HostView): EventContent[] {
  const { id: hostId, name, upgrade } = after
  if (!upgrade || upgradeStateOf(upgrade) === 'running') return []
  const { id, step, rollback, from, to, message } = upgrade
  if (before.upgrade?.id === id && before.upgrade.step === step) return []
  const type = step === 'done' ? 'host.upgraded' : 'host.upgrade_failed'
  const data = JSON.stringify({ id: hostId, name, rollback, from, to, message })
  return [{ type, hostId, guestUuid: '', data }]
}

/** Returns an event if a drain has just ended. */
function drainEvents(before: HostView, { id: hostId, name, drained }: HostView): EventContent[] {
  if (!drained || before.drained?.endedAtMs === drained.endedAtMs) return []
  const { mode, direction, state, done, failed, skipped } = drained
  const data = JSON.stringify({ id: hostId, name, mode, direction, state, done, failed, skipped })
  return [{ type: 'host.drained', hostId, guestUuid: '', data }]
}

/** Returns an event if a host has more old copies than before. Other hosts own the guests of these copies now. */
function fencedEvents(before: HostView, { id: hostId, name, fenced }: HostView): EventContent[] {
  if (fenced <= before.fenced) return []
  return [
    { type: 'host.fenced', hostId, guestUuid: '', data: JSON.stringify({ id: hostId, name, containers: fenced }) },
  ]
}

/** Reports changes of the host's maintenance windows. Callers restricted to some guests do not see its name. */
function maintenanceEvents({ before, after }: Pair<HostView>, hostId: string, time: TimeFormat): EventContent[] {
  if (!before || !after || before.maintenance === after.maintenance) return []
  return after.maintenance.flatMap((window) => {
    const row = { ...windowFields(window, time), host_id: hostId }
    const customerData = JSON.stringify(row)
    const data = JSON.stringify({ ...row, host_name: after.name })
    const former = before.maintenance.find(({ id }) => id === window.id)
    return changesOf(former, window).map((change): EventContent => {
      const type = `maintenance.${change}` as const
      return { type, hostId, guestUuid: '', data, customer: { type, data: customerData } }
    })
  })
}

function hostType(before: HostView | undefined, after: HostView | undefined): EventType | undefined {
  if (after === undefined) return 'host.removed'
  if (before === undefined) return 'host.added'
  if (before.state !== after.state) return after.state === 'online' ? 'host.online' : 'host.offline'
  return JSON.stringify(settledParts(before)) === JSON.stringify(settledParts(after)) ? undefined : 'host.updated'
}

/** Returns the properties of a host whose changes cause an event. Omits the time of the last report. */
function settledParts(host: HostView) {
  const { install, upgrade, drained, fenced } = host
  const upgrading = { upgradeId: upgrade?.id, upgradeStep: upgrade?.step, upgradeMessage: upgrade?.message }
  return {
    ...settledRow(host),
    step: install?.step,
    message: install?.message,
    ...upgrading,
    drained: drained?.endedAtMs,
    fenced,
  }
}

/** The fields of a host that even callers restricted to some containers may see. */
function settledRow({ id, name, state, draining, description }: HostView) {
  return { id, name, status: state, draining, version: description?.version ?? '' }
}

function hostEventRow(host: HostView, time: TimeFormat) {
  return { ...settledRow(host), last_seen: time.format(host.lastSeenMs) }
}

const noMetrics = HostMetrics.create()

function usageRow({ id, metrics = noMetrics }: HostView, time: TimeFormat) {
  return {
    host_id: id,
    cpu_usage_pct: metrics.cpuUsagePct,
    ram_used_mb: metrics.ramUsedMb,
    ram_total_mb: metrics.ramTotalMb,
    disk_used_gb: metrics.diskUsedGb,
    disk_total_gb: metrics.diskTotalGb,
    load1: metrics.load1,
    load5: metrics.load5,
    load15: metrics.load15,
    sampled_at: time.format(metrics.sampledAtMs),
  }
}
