import { Clean } from 'typebox/value'
import type { BackupTarget } from '../../../proto/gen/berth/agent/v1/backup.js'
import { checkBackupTarget } from '../../../shared/backup-target-rules.js'
import { invalidField } from '../../../shared/errors.js'
import { checkFirewall } from '../../../shared/firewall-rules.js'
import { checkPortMapping } from '../../../shared/port-mapping-rules.js'
import type { Login } from '../../drivers/machine.js'
import type { BackupContext } from '../context.js'
import type { GuestRecord, PortMapping } from '../record/record.js'
import { noBackupSchedule, type SnapshotSchedule } from '../record/snapshots-and-backups.js'
import { checkLimits } from '../resources/limits.js'
import { planAllowance, planRetained } from '../snapshots/plan-snapshot-space.js'
import { manifestSchema, movedFields, type MovedDocument } from './manifest-schema.js'
import { parseMessage } from './messages.js'
import type { MovedTraffic } from './move-input.js'

/** Everything that belongs to a guest, except its disk. It contains secrets, and is only sent between agents. */
export interface Manifest {
  readonly document: MovedDocument
  readonly limits: GuestRecord['spec']['limits']
  readonly login: Login | null
  /** Target of the backup schedule. */
  readonly backupTarget: BackupTarget | null
  readonly portMappings: readonly PortMapping[]
  readonly publicIpv4s: readonly string[]
  readonly ipv6Addresses: readonly string[]
  readonly trafficCount: MovedTraffic | null
  /** True if the guest must run again on the target host. */
  readonly isWanted: boolean
}

/** Collects everything that moves with a guest, except its disk. A running guest's manifest only serves for checks. */
export function makeManifest(
  { logins, targets }: Pick<BackupContext, 'logins' | 'targets'>,
  record: GuestRecord,
  { trafficCount, isWanted }: Pick<Manifest, 'trafficCount' | 'isWanted'>,
): Manifest {
  const { uuid, login, backupSchedule } = record
  return {
    document: {
      ...movedPart(record),
      snapshots: record.snapshots.filter(({ state }) => state === 'ready'),
      backups: record.backups.filter(({ state }) => state === 'ready'),
      backupSchedule: { ...backupSchedule, target: '' },
    },
    limits: record.spec.limits,
    login: login === null ? null : logins.open(record),
    backupTarget: backupSchedule.target === '' ? null : targets.open(uuid, backupSchedule.target),
    portMappings: record.portMappings,
    publicIpv4s: record.publicIpv4s,
    ipv6Addresses: record.ipv6Addresses,
    trafficCount,
    isWanted,
  }
}

/** Checks a manifest of another host. Drops unknown fields. @throws {BerthError} `bad_stream`, `invalid_field` */
export function parseManifest(raw: string): Manifest {
  const manifest = Clean(manifestSchema, parseMessage(manifestSchema, JSON.parse(raw))) as Manifest
  const { document, limits, backupTarget, portMappings } = manifest
  checkSchedule('snapshot_schedule', document.snapshotSchedule)
  checkSchedule('backup_schedule', document.backupSchedule)
  if (backupTarget !== null) checkBackupTarget(backupTarget)
  for (const mapping of portMappings) checkPortMapping(mapping)
  return {
    ...manifest,
    limits: checkLimits(limits),
    document: { ...document, firewall: checkFirewall(document.firewall) },
  }
}

/** Checks that the next run of an enabled schedule can be computed. @throws {BerthError} `invalid_field` */
function checkSchedule(field: string, { enabled, intervalHours, time, firstDay }: SnapshotSchedule): void {
  if (!enabled) return
  if (intervalHours < 1 || Number.isNaN(Date.parse(`${firstDay}T${time}:00Z`)))
    throw invalidField(field, `${field}: must have a valid interval, time and first day if the schedule is enabled`)
}

/**
 * Limits the values of a manifest that raise the guest's disk limit, because a hostile host can send any values.
 * @param arrivedBytes length of the received streams; honest values cannot be larger
 */
export function boundSpace(manifest: Manifest, arrivedBytes: number): Manifest {
  const { document } = manifest
  const bounded = (bytes: number): number => Math.min(bytes, arrivedBytes)
  const snapshotSpace = {
    limitBytes: document.snapshotSpace.limitBytes,
    retainedBytes: bounded(planRetained(document)),
    allowanceBytes: bounded(planAllowance(document)),
    isMeasured: true,
  }
  return { ...manifest, document: { ...document, snapshotSpace, extraBytes: bounded(document.extraBytes) } }
}

/** Returns the document and the login of a guest that has arrived, sealed with this host's key. */
export function sealManifest(
  { logins, targets }: Pick<BackupContext, 'logins' | 'targets'>,
  uuid: string,
  { document, login, backupTarget }: Manifest,
): { readonly document: MovedDocument; readonly login: string | null } {
  const target = backupTarget === null ? noBackupSchedule.target : targets.seal(uuid, backupTarget)
  return {
    document: { ...movedPart(document), backupSchedule: { ...document.backupSchedule, target } },
    login: login === null ? null : logins.seal(uuid, login),
  }
}

/** Picks the fields that move with a guest. A manifest from another host can contain further fields. */
function movedPart(document: MovedDocument): MovedDocument {
  return Object.fromEntries(movedFields.map((field) => [field, document[field]])) as unknown as MovedDocument
}
