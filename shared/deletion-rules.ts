/* Rules of deletions that can be undone, for the gateway and the agent. */

/** Maximum time in hours for which a deletion can be undone: 30 days. */
export const maxUndoHours = 720
export const hourMs = 3_600_000
export const maxRetainMs = maxUndoHours * hourMs
