import type { Guest, SnapshotSchedule as WireSchedule } from '../../../proto/gen/berth/agent/v1/guest.js'
import type { CreateFromBackupOrder } from '../../../proto/gen/berth/agent/v1/operation.js'
import { BerthError, conflict, invalidField } from '../../../shared/errors.js'
import { checkInteger } from '../../../shared/field-checks.js'
import { noLabels, parseTags } from '../../../shared/label-rules.js'
import type { CheckedMapping } from '../../../shared/port-mapping-rules.js'
import { adoptAddresses, departAddresses } from '../../network/addresses/shared-pools.js'
import type { GuestContext } from '../context.js'
import { noteArrival, readArrival } from '../moves/arrival-details.js'
import { changeOwnership } from '../moves/change-ownership.js'
import { chooseAddresses } from '../moves/reserve-arrival.js'
import { planMappings } from '../moves/plan-arrival.js'
import { parseAddresses } from '../parse-settings.js'
import type { GuestRecord } from '../record/record.js'
import {
  noBackupSchedule,
  noSchedule,
  type BackupRecord,
  type SnapshotSchedule,
} from '../record/snapshots-and-backups.js'
import { spanOf } from '../resources/host-ports.js'

/*
 * A guest that this host takes over from a failed host (docs/design/moving-guests.md). It is created from its newest
 * backup, and keeps what the failed host has reported about it.
 */

/** The fields of a guest's record that a creation does not set. */
type FormerFields = Pick<
  GuestRecord,
  'labels' | 'suspension' | 'security' | 'snapshotSchedule' | 'backupSchedule' | 'backups' | 'hasPassword' | 'login'
>

/**
 * Returns the fields of a guest that is taken over, for its record. Undefined: the guest is new.
 * @throws {BerthError} `missing_field`, `invalid_field`
 */
export function parseFormer({
  generation,
  former,
  create,
  sourceUuid,
}: CreateFromBackupOrder): FormerFields | undefined {
  if (checkInteger('generation', generation, { min: 0, max: Number.MAX_SAFE_INTEGER }) === 0) return undefined
  if (!former)
    throw new BerthError('invalid', 'missing_field', 'former: is required if generation is not 0', { field: 'former' })
  if (sourceUuid !== create?.uuid) throw invalidField('source_uuid', 'source_uuid: must be the uuid of the guest')
  const { labels = noLabels, suspension, security } = former
  return {
    labels: { ...labels, tags: parseTags(labels.tags) },
    suspension: suspension ? { ...suspension, mode: modeOf(suspension.mode), resumes: true } : null,
    security: { exempt: security?.exempt ?? false, smtp: smtpOf(security?.smtp) },
    snapshotSchedule: scheduleOf(former.snapshotSchedule),
    backupSchedule: backupScheduleOf(former),
    backups: former.backups.map((backup): BackupRecord => ({ ...backup, state: 'ready' })),
    // The disk contains the login, but the password itself was stored only on the failed host.
    hasPassword: false,
    login: null,
  }
}

/**
 * Makes this host the owner of the guest. Joins the caller's transaction.
 * @throws {BerthError} `guest_moving` if the host has the guest, or knows this generation or a newer one
 */
export function takeOver({ store }: Pick<GuestContext, 'store'>, uuid: string, generation: number): void {
  if (!changeOwnership(store, uuid, { kind: 'restore', generation }))
    throw conflict('guest_moving', 'this host has a copy of the container, or knows a newer owner')
}

/**
 * Keeps host ports that are free on this host. Sets others to 0 (any free port). Joins the caller's transaction.
 * @param hasAddress true if this host has the address. By default it has none, because a failed host had others.
 */
export function freePorts(
  { ports }: Pick<GuestContext, 'ports'>,
  wanted: readonly CheckedMapping[],
  listening: ReadonlySet<string>,
  hasAddress = (hostIp: string): boolean => hostIp === '',
): CheckedMapping[] {
  const choice = ports.openChoice(listening)
  return planMappings(wanted, [], { hasAddress, tryTake: (one) => choice.tryTake(spanOf(one)) })
}

/**
 * Chooses the public addresses of the guest. It keeps addresses in a shared pool that both hosts serve, and these join
 * the pool of this host. Joins the caller's transaction.
 * @throws {BerthError} `invalid_field`, `resource_exhausted`
 */
export function takeAddresses(
  { network, store }: Pick<GuestContext, 'network' | 'store'>,
  uuid: string,
  { former, sharedPools }: Pick<CreateFromBackupOrder, 'former' | 'sharedPools'>,
): Pick<GuestRecord, 'publicIpv4s' | 'ipv6Addresses'> {
  const publicIpv4s = parseAddresses('public_ipv4s', former?.publicIpv4s ?? [], 'ipv4')
  const ipv6Addresses = parseAddresses('ipv6_addresses', former?.ipv6Addresses ?? [], 'ipv6')
  const { kept, ...chosen } = chooseAddresses({ network }, { publicIpv4s, ipv6Addresses, sharedPools })
  adoptAddresses(store.changes.db, kept)
  noteArrival(store, uuid, { kept })
  return chosen
}

/** Removes a guest's addresses from this host's pool after its restore was undone. Joins the caller's transaction. */
export function giveBackAddresses({ store }: Pick<GuestContext, 'store'>, uuid: string): void {
  const { kept = [] } = readArrival(store, uuid)
  departAddresses(
    store.changes.db,
    kept.map(({ address }) => address),
  )
}

function modeOf(mode: string): 'stop' | 'network' {
  return mode === 'network' ? 'network' : 'stop'
}

function smtpOf(smtp: string | undefined): GuestRecord['security']['smtp'] {
  return smtp === 'open' || smtp === 'closed' ? smtp : 'default'
}

function scheduleOf(wire: WireSchedule | undefined): SnapshotSchedule {
  if (!wire) return noSchedule
  const { enabled, intervalHours, time, retention, createdBy, lastRunMs, nextRunMs } = wire
  const firstDay = enabled ? new Date(nextRunMs).toISOString().slice(0, 10) : ''
  return { enabled, intervalHours, time, retention, createdBy, lastRunMs, nextRunMs, firstDay }
}

/** The time of the target's last change is recorded as 0, so that the gateway sends the target of the schedule. */
function backupScheduleOf({ backupSchedule }: Guest): GuestRecord['backupSchedule'] {
  if (!backupSchedule) return noBackupSchedule
  return { ...scheduleOf(backupSchedule), targetId: backupSchedule.targetId, targetChangedAtMs: 0, target: '' }
}
