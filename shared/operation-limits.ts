/**
 * Operations of one host that the gateway lists: as many as an agent sends to a watcher that starts over, the newest.
 * Older ones are asked for one by one.
 */
export const listedOperations = 5000
