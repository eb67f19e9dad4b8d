/**
 * Number of newest operations of a host that the gateway lists. When the gateway connects to the agent, the agent sends
 * these operations. The gateway requests older operations one by one.
 */
export const listedOperations = 5000
