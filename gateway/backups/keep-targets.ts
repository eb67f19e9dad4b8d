import type { Logger } from 'pino'
import type { BackupSchedule } from '../../proto/gen/berth/agent/v1/guest.js'
import { BackupScheduleChange } from '../../proto/gen/berth/agent/v1/network.js'
import type { Fleet, GuestView } from '../fleet/contract.js'
import type { BackupTargets, TargetRecord } from './targets.js'

export interface KeepTargetsParts {
  readonly fleet: Fleet
  readonly targets: BackupTargets
  readonly log: Logger
}

/** Sends agents the current targets of their schedules, because agents start scheduled backups by themselves. */
export function keepTargets({ fleet, targets, log }: KeepTargetsParts): () => Promise<void> {
  const keepOne = async ({ hostId, guest }: GuestView, record: TargetRecord | undefined): Promise<void> => {
    const change = record
      ? { target: await targets.open(record.id), targetChangedAtMs: record.changedAtMs }
      : { forgetTarget: true }
    const value = BackupScheduleChange.fromPartial(change)
    const { guest: changed } = await fleet.agent(hostId).settings.changeSetting({
      uuid: guest.uuid,
      operationId: '',
      ifRevision: 0,
      change: { $case: 'backupSchedule', value },
    })
    if (changed) await fleet.reached(hostId, changed.revision)
  }
  return async () => {
    const scheduled = [...fleet.view.guests()].filter(({ online, guest }) => online && targetOf(guest))
    if (scheduled.length === 0) return
    const known = new Map((await targets.list()).map((record) => [record.id, record]))
    for (const view of scheduled) {
      const record = known.get(targetOf(view.guest))
      if (record?.changedAtMs === view.guest.backupSchedule?.targetChangedAtMs) continue
      await keepOne(view, record).catch((err: unknown) =>
        log.warn({ err, guest: view.guest.uuid, host: view.hostId }, 'could not send a backup target to a host'),
      )
    }
  }
}

function targetOf({ backupSchedule }: { readonly backupSchedule?: BackupSchedule | undefined }): string {
  return backupSchedule?.targetId ?? ''
}
