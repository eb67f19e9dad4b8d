export interface CommandFacts {
  /** host:port of the join endpoint. */
  readonly address: string
  /** Digest of the endpoint's public key, as `pinOf` returns it. */
  readonly pin: string
  readonly token: string
  /** True if this gateway has packages. If false, the agent must have been installed before. */
  readonly hasPackages: boolean
}

/** Command that joins an installed agent. It uses the same paths as `scripts/up` (scripts/lib/instance.sh). */
const joinInstalled = 'node /opt/berth/dist/agent/main.js join - --config /etc/berth/agent.yaml'

/** Creates the command that an operator runs as root on a new host. */
export function planCommand({ address, pin, token, hasPackages }: CommandFacts): string {
  if (!hasPackages) return `echo ${token} | ${joinInstalled}`
  // The pin replaces the check of the certificate, because the new host does not know the gateway's authority.
  return `curl -fsSLk --pinnedpubkey '${pin}' https://${address}/install | sh -s -- ${token}`
}
