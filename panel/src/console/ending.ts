/** The reason why a console is not open. It comes from a close frame of the gateway or from a refused request. */
export interface Ending {
  /** Code of the close frame; 0 without a close frame. */
  readonly code: number
  /** The reason as a machine-readable word. */
  readonly reason: string
}

/** Codes of temporary failures of requests. */
const passing = ['network', 'host_offline', 'store_unavailable', 'rate_limited', 'internal_error', 'agent_error']

/** True if the console has ended for a temporary reason. The panel then connects again automatically. */
export function passes({ code, reason }: Ending): boolean {
  if (code === 0) return passing.includes(reason)
  return [1001, 1005, 1006, 1011].includes(code) || reason === 'silent'
}

/** True if the console no longer exists, so that it cannot be continued. */
export function isGone({ code, reason }: Ending): boolean {
  if (reason === 'taken_over' || reason === 'unsupported') return false
  return [1000, 4403, 4404, 4408, 4409, 4410].includes(code)
}

/** Maps error codes of refused requests to the reasons that close frames contain for the same problems. */
const sameAs: Readonly<Record<string, string>> = {
  invalid_state: 'not_running',
  guest_not_running: 'not_running',
  policy_blocked: 'blocked',
  too_many_consoles: 'too_many',
}

/** Converts the error code of a refused request to the reason why the console is not open. */
export function endingOf(code: string): Ending {
  return { code: 0, reason: sameAs[code] ?? code }
}
