/**
 * Number of a host's newest operations that the gateway lists. An agent sends as many of them when the gateway starts
 * to watch it again. Older operations are requested one by one.
 */
export const listedOperations = 5000
