/**
 * Optional functions that an agent declares in its description. A gateway requests a function only from a host that
 * lists it, so that an older agent never gets a call that it does not know.
 * - `upgrade`: the agent can install another version of itself; only for hosts that their gateway installed.
 * - `move`: the host can send containers to other hosts and receive them.
 * - `fence`: the agent refuses calls of a gateway whose lease another gateway has taken over. Older agents ignore the
 *   fence of a call, so calls need not be held back from them.
 */
export const agentFeatures = ['upgrade', 'move', 'fence'] as const
export type AgentFeature = (typeof agentFeatures)[number]
