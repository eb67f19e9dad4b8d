/**
 * Number of a host's newest operations that the gateway lists, and that an agent sends to a watcher that starts over.
 * Older ones are requested one by one.
 */
export const listedOperations = 5000
