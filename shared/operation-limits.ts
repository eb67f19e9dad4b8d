/**
 * How many of a host's newest operations the gateway lists, and an agent sends to a watcher that starts over. Older
 * ones are asked for one by one.
 */
export const listedOperations = 5000
