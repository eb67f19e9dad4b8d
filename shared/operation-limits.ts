/**
 * Number of a host's newest operations that the gateway lists, and that an agent sends when a watch starts again. Older
 * operations are requested one by one.
 */
export const listedOperations = 5000
