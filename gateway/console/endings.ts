/** How a console ends: code and reason in the close frame of its WebSocket. */
export interface ConsoleEnding {
  readonly code: number
  /** Reason of the end as a word for client programs, at most 123 bytes. */
  readonly reason: string
}

const ending = (code: number, reason: string): ConsoleEnding => ({ code, reason })

export const endings = {
  ended: ending(1000, 'ended'),
  closed: ending(1000, 'closed'),
  leaving: ending(1001, 'gateway_leaves'),
  failed: ending(1011, 'agent_error'),
  badFrame: ending(4400, 'bad_frame'),
  badRequest: ending(4400, 'bad_request'),
  ticket: ending(4401, 'ticket'),
  revoked: ending(4403, 'revoked'),
  gone: ending(4404, 'not_found'),
  idle: ending(4408, 'idle'),
  tooLong: ending(4408, 'too_long'),
  silent: ending(4408, 'silent'),
  notRunning: ending(4409, 'not_running'),
  blocked: ending(4409, 'blocked'),
  takenOver: ending(4409, 'taken_over'),
  unsupported: ending(4409, 'unsupported'),
  deleted: ending(4410, 'deleted'),
  tooMany: ending(4429, 'too_many'),
} as const satisfies Record<string, ConsoleEnding>

/** Converts the reason with which an agent ends a console to the ending that the client gets. */
export function endingOfExit(reason: string): ConsoleEnding {
  if (reason === 'ended') return endings.ended
  if (reason === 'guest_stopped') return endings.notRunning
  if (reason === 'guest_deleted') return endings.deleted
  return reason === 'taken_over' ? endings.takenOver : endings.failed
}

const byCode: Readonly<Record<string, ConsoleEnding>> = {
  unauthorized: endings.ticket,
  not_found: endings.gone,
  console_gone: ending(4404, 'console_gone'),
  invalid_state: endings.notRunning,
  guest_not_running: endings.notRunning,
  policy_blocked: endings.blocked,
  unsupported: endings.unsupported,
  too_many_consoles: endings.tooMany,
  rate_limited: endings.tooMany,
  invalid_field: endings.badRequest,
  host_offline: ending(1011, 'host_offline'),
  store_unavailable: ending(1011, 'store_unavailable'),
}

/** Converts an error code to the ending of a console that could not be opened. */
export function endingOfError(code: string): ConsoleEnding {
  return byCode[code] ?? endings.failed
}
