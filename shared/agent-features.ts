/**
 * Optional functions that an agent declares in its description. A gateway requests a function only from a host that
 * lists it, so that an older agent never gets a call that it does not know.
 * `upgrade`: the agent can install another version of itself; only for hosts that their gateway installed.
 */
export const agentFeatures = ['upgrade'] as const
export type AgentFeature = (typeof agentFeatures)[number]
