import { BackupScheduleChange } from '../../../../proto/gen/berth/agent/v1/network.js'
import { BerthError } from '../../../../shared/errors.js'
import { inField } from '../../../../shared/field-checks.js'
import { authorize } from '../../../access/scopes.js'
import type { Principal } from '../../../access/principal.js'
import type { SubUserAccount } from '../../../accounts/account-record.js'
import type { BackupTargets } from '../../../backups/targets.js'
import type { GuestCreationRequest, NewGuestIds } from '../../../fleet/creation-contract.js'
import type { SubUsers } from '../../../sub-users/sub-users.js'
import { targetIdFor } from '../../target-choice.js'
import { describeFirewall, planFirewall } from '../firewall-body.js'
import type { NewBackupSchedule } from '../backup-schedule-body.js'
import type { CreateBody } from './create-body.js'

export interface InitialSettingParts {
  readonly subUsers: Pick<SubUsers, 'findAssignable' | 'update'>
  readonly targets: Pick<BackupTargets, 'list' | 'get' | 'open' | 'note'>
}

/** Owner, firewall and backup schedule of a new container. */
export interface InitialSettings extends Pick<GuestCreationRequest, 'settings'> {
  /** Gives the container to its owner. Call it before the creation is queued. Absent: the container has no owner. */
  readonly prepare?: (guest: NewGuestIds) => Promise<void>
  /** Undoes `prepare`, for a container that was not created. Absent if `prepare` is absent. */
  readonly revert?: (guest: NewGuestIds) => Promise<void>
  /** Records the container at the target of its backups. Call it when the creation is queued. */
  readonly note: (guest: NewGuestIds) => Promise<void>
  /** Text for the audit log. Empty: the request contains none of these settings. */
  readonly summary: string
}

/** Error codes of `planInitialSettings`, for routes that create containers. */
export const initialSettingErrors = ['not_found', 'backup_target_missing'] as const

type SettingFields = Pick<CreateBody, 'owner_id' | 'firewall' | 'backup_schedule'>

/**
 * Checks the owner, the firewall and the backup schedule of a new container, and changes nothing.
 * @throws {BerthError} `invalid_field`, `missing_field`, `insufficient_scope`, `not_found`, `backup_target_missing`
 */
export async function planInitialSettings(
  parts: InitialSettingParts,
  body: SettingFields,
  caller: Principal,
): Promise<InitialSettings> {
  const { firewall: wanted } = body
  const firewall = wanted && inField('firewall', () => planFirewall(wanted))
  const owner = await findOwner(parts, body, caller)
  const backupSchedule = body.backup_schedule && (await planBackups(parts, body.backup_schedule, caller))
  const targetId = backupSchedule?.target?.id
  return {
    ...((firewall ?? backupSchedule) && { settings: { firewall, backupSchedule } }),
    ...(owner && {
      prepare: (guest) => assign(parts, { caller, owner, guest }),
      revert: async ({ uuid }) => void (await parts.subUsers.update(caller, owner.id, { removedUuids: [uuid] })),
    }),
    note: async ({ id, uuid, name }) => {
      if (targetId !== undefined) await parts.targets.note(targetId, { id, uuid, name })
    },
    summary: [
      ...(owner ? [`owner ${owner.username}`] : []),
      ...(firewall ? [`firewall ${describeFirewall(firewall)}`] : []),
      ...(backupSchedule ? [`backups every ${backupSchedule.intervalHours} hours`] : []),
    ].join(', '),
  }
}

async function findOwner(
  { subUsers }: InitialSettingParts,
  { owner_id: id }: SettingFields,
  caller: Principal,
): Promise<SubUserAccount | undefined> {
  if (id === undefined) return undefined
  return aboutField('owner_id', () => {
    authorize(caller, 'subuser:update')
    return subUsers.findAssignable(caller, id)
  })
}

interface Assignment {
  readonly caller: Principal
  readonly owner: SubUserAccount
  readonly guest: NewGuestIds
}

async function assign({ subUsers }: InitialSettingParts, { caller, owner, guest }: Assignment): Promise<void> {
  await aboutField('owner_id', () => subUsers.update(caller, owner.id, { addedUuids: [guest.uuid] }))
}

async function planBackups(
  { targets }: InitialSettingParts,
  { interval_hours: intervalHours = 24, time, retention, target_id: wanted }: NewBackupSchedule,
  caller: Principal,
): Promise<BackupScheduleChange> {
  const id = await aboutField('backup_schedule.target_id', () => {
    authorize(caller, 'backup:schedule')
    return targetIdFor({ targets }, wanted)
  })
  const [{ changedAtMs }, target] = [await targets.get(id), await targets.open(id)]
  return BackupScheduleChange.fromPartial({
    enabled: true,
    intervalHours,
    time,
    retention,
    createdBy: caller.user,
    target,
    targetChangedAtMs: changedAtMs,
  })
}

/** Replaces the field that an error names. */
async function aboutField<T>(field: string, act: () => Promise<T>): Promise<T> {
  try {
    return await act()
  } catch (error) {
    if (!(error instanceof BerthError) || error.kind === 'unavailable') throw error
    throw new BerthError(error.kind, error.code, error.message, { field, cause: error })
  }
}
