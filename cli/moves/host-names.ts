import type { Names } from '../names/names.js'

/** Returns a function that converts host ids to names. */
export async function hostNames(names: Names): Promise<(hostId: string) => string> {
  const hosts = await names.list('host')
  return (hostId) => hosts.find(({ id }) => id === hostId)?.name ?? hostId
}
