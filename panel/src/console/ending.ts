/** The reason why a console is not open: a close frame of the gateway, or the code of a refused request. */
export interface Ending {
  /** Code of the close frame; 0: there was none. */
  readonly code: number
  /** A machine-readable reason. */
  readonly reason: string
}

/** Codes of temporary refusals. */
const passing = ['network', 'host_offline', 'store_unavailable', 'rate_limited', 'internal_error', 'agent_error']

/** True if another automatic try makes sense. */
export function passes({ code, reason }: Ending): boolean {
  if (code === 0) return passing.includes(reason)
  return [1001, 1005, 1006, 1011].includes(code) || reason === 'silent'
}

/** True if nothing is left to continue. */
export function isGone({ code, reason }: Ending): boolean {
  if (reason === 'taken_over' || reason === 'unsupported') return false
  return [1000, 4403, 4404, 4408, 4409, 4410].includes(code)
}

/** Refusals of requests with the meaning of a close frame. */
const sameAs: Readonly<Record<string, string>> = {
  invalid_state: 'not_running',
  guest_not_running: 'not_running',
  policy_blocked: 'blocked',
  too_many_consoles: 'too_many',
}

/** @returns an ending without a close frame */
export function endingOf(code: string): Ending {
  return { code: 0, reason: sameAs[code] ?? code }
}
