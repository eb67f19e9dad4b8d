export interface CommandFacts {
  /** host:port of the join endpoint. */
  readonly address: string
  /** Pin of the gateway's public key, in the form of `pinOf`. */
  readonly pin: string
  readonly token: string
  /** False: this gateway has no packages for hosts, which then need an installed agent. */
  readonly hasPackages: boolean
}

/** Paths as in `scripts/up` (scripts/lib/instance.sh); a named instance has its name in both. */
const joinInstalled = 'node /opt/berth/dist/agent/main.js join - --config /etc/berth/agent.yaml'

/** The command that an operator runs as root on a new host. */
export function planCommand({ address, pin, token, hasPackages }: CommandFacts): string {
  if (!hasPackages) return `echo ${token} | ${joinInstalled}`
  // The pin replaces the check of the certificate: the new host does not know the gateway's authority.
  return `curl -fsSLk --pinnedpubkey '${pin}' https://${address}/install | sh -s -- ${token}`
}
