import { Type, type Static } from 'typebox'
import type { TimeFormat } from '../../../shared/time.js'
import { automaticMoveStates, balanceReasons, waitCodes, type AutomaticMove } from '../../balancing/balancing-record.js'
import type { BalancingStatus } from '../../balancing/balancing.js'
import { nextCheckMs } from '../../balancing/plan-balancing.js'
import { oneOf, timeSchema } from '../../http/schema.js'

const MoveSchema = Type.Object(
  {
    container_uuid: Type.String(),
    container_name: Type.String(),
    from_host_id: Type.String(),
    to_host_id: Type.String(),
    reason: oneOf(balanceReasons),
    state: oneOf(automaticMoveStates),
    task_id: Type.String({ description: 'Task of the move. It does not exist if the move could not begin.' }),
    message: Type.String({ description: 'Why the move failed. Otherwise empty.' }),
    started_at: timeSchema('the move began'),
    ended_at: timeSchema('the move ended', 'it has not ended'),
  },
  { title: 'AutomaticMove' },
)

const RefusedSchema = Type.Object(
  {
    container_uuid: Type.String(),
    container_name: Type.String(),
    code: Type.String({
      description:
        '`recently_moved`: the container was moved, or a move of it failed, within the last `pause_hours`. `changes_addresses`: its addresses or ports would change. Otherwise the error code of a dry run, which is repeated after `pause_hours` at the earliest.',
    }),
    message: Type.String(),
  },
  { title: 'RefusedMove' },
)

export const AutomaticBalanceSchema = Type.Object(
  {
    enabled: Type.Boolean(),
    waits_for: oneOf(
      ['', ...waitCodes],
      'Reason why no move begins now. `disabled`: automatic balancing is disabled. `upgrade`: an upgrade of the fleet has not ended. `host_offline`, `host_drained`, `host_maintenance`: see `host_id`. `window`: the time is outside the daily window. `moving`: the maximum number of automatic moves is running. `interval`: the next check is not due yet. `no_move`: the last check found no suitable move. Empty: a check is about to begin.',
    ),
    host_id: Type.String({ description: 'Host that is offline, drained or in maintenance. Otherwise empty.' }),
    checked_at: timeSchema('the last check was made', 'there was no check'),
    next_check_at: timeSchema(
      'the next check is made at the earliest',
      'automatic balancing is disabled, or a check is due',
    ),
    moves: Type.Array(MoveSchema, { description: 'Active moves and the last 20 that have ended, newest first.' }),
    refused: Type.Array(RefusedSchema, {
      description: 'Containers whose move was suggested, but not allowed in the last check.',
    }),
  },
  { title: 'AutomaticBalance' },
)
type AutomaticBalance = Static<typeof AutomaticBalanceSchema>

export function automaticRow({ settings, state, wait }: BalancingStatus, time: TimeFormat): AutomaticBalance {
  return {
    enabled: settings.enabled,
    waits_for: wait?.code ?? '',
    host_id: wait?.hostId ?? '',
    checked_at: time.format(state.checkedAtMs),
    next_check_at: settings.enabled ? time.format(nextCheckMs(settings, state)) : '',
    moves: state.moves.map((move) => moveRow(move, time)),
    refused: state.refused.map(({ uuid, name, ...why }) => ({ container_uuid: uuid, container_name: name, ...why })),
  }
}

function moveRow(move: AutomaticMove, time: TimeFormat): Static<typeof MoveSchema> {
  const { uuid, name, fromHostId, toHostId, reason, state, taskId, message, beganAtMs, endedAtMs } = move
  return {
    container_uuid: uuid,
    container_name: name,
    from_host_id: fromHostId,
    to_host_id: toHostId,
    reason,
    state,
    task_id: taskId,
    message,
    started_at: time.format(beganAtMs),
    ended_at: time.format(endedAtMs),
  }
}
