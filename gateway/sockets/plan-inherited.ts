export type ServiceEnvironment = Readonly<NodeJS.ProcessEnv>

const firstDescriptor = 3

/** Descriptors by name that systemd passed to the process `pid`. Source: sd_listen_fds(3) */
export function planInherited(environment: ServiceEnvironment, pid: number): Map<string, number> {
  const { LISTEN_PID: owner, LISTEN_FDS: count, LISTEN_FDNAMES: names = '' } = environment
  if (Number(owner) !== pid) return new Map()
  const each = names.split(':').slice(0, Number(count) || 0)
  return new Map(each.map((name, index) => [name, firstDescriptor + index]))
}

/** Name under which systemd stores the socket of an address. It must not contain colons. */
export function nameOf(address: string, port: number): string {
  return `${address.replaceAll(':', '.')},${port}`
}
