import { Type, type Static } from 'typebox'
import type { TimeFormat } from '../../../shared/time.js'
import { windowStates, type HostWindow } from '../../fleet/host-windows.js'
import { oneOf, TimeSchema } from '../../http/schema.js'

/** Fields of a maintenance window that customers may see. */
export const maintenanceFields = {
  id: Type.String(),
  state: oneOf(
    windowStates,
    '`announced`: it has not started. `active`: it has started. `ended`: it is over. `canceled`: it will not take place.',
  ),
  starts_at: TimeSchema,
  ends_at: TimeSchema,
  interruption_minutes: Type.Integer({
    description: 'Minutes for which each container is expected to be interrupted. 0: no interruption is expected.',
  }),
  message: Type.String({ description: 'Plain text that sub-users see. Empty: there is no text.' }),
}

export const MaintenanceSchema = Type.Union(
  [Type.Object(maintenanceFields, { title: 'ContainerMaintenance' }), Type.Null()],
  {
    description:
      'Current maintenance window of the host, or else the next one. It changes when the container moves to another host. `null`: no maintenance is announced.',
  },
)
type MaintenanceRow = Static<typeof MaintenanceSchema>

export function maintenanceRow(window: HostWindow | undefined, time: TimeFormat): MaintenanceRow {
  return window ? windowFields(window, time) : null
}

export function windowFields(window: HostWindow, time: TimeFormat): NonNullable<MaintenanceRow> {
  const { id, state, startsAtMs, endsAtMs, interruptionMinutes, message } = window
  return {
    id,
    state,
    starts_at: time.format(startsAtMs),
    ends_at: time.format(endsAtMs),
    interruption_minutes: interruptionMinutes,
    message,
  }
}
