import { Type, type Static } from 'typebox'
import { limits, timeOfDayPattern } from '../../../shared/guest-rules.js'
import { trimmed, zeroIsAbsent } from '../../http/normalize.js'
import { TargetIdSchema } from '../target-choice.js'
import { integerWithin } from './setting-schemas.js'

const { snapshotIntervalHours: interval } = limits

/** @param defaults meaning of an omitted interval */
export function backupScheduleFields(defaults: string) {
  return {
    interval_hours: Type.Optional(
      Type.Integer({
        minimum: interval.min,
        maximum: interval.max,
        ...zeroIsAbsent,
        description: `Hours between two backups. ${defaults}`,
      }),
    ),
    time: Type.Optional(
      Type.String({
        ...trimmed,
        pattern: timeOfDayPattern,
        examples: ['03:30'],
        description:
          'Time of day of the first backup: `HH:MM` in the time zone of the container’s host. Further ones follow every `interval_hours` hours. Default: 00:00.',
      }),
    ),
    retention: integerWithin(
      limits.backups,
      'Number of scheduled backups of the container that the target retains; older ones are deleted. 0: as many as a container can have. The schedule never deletes backups that a caller requested.',
    ),
    target_id: Type.Optional(TargetIdSchema),
  }
}

export const NewBackupScheduleSchema = Type.Object(backupScheduleFields('If omitted or 0: 24.'), {
  title: 'InitialBackupSchedule',
  description: 'Backup schedule of the new container. Default: no schedule.',
})
export type NewBackupSchedule = Static<typeof NewBackupScheduleSchema>
