import type { Guest } from '../../../proto/gen/berth/agent/v1/guest.js'
import { isReachableName, parseHostName } from '../../../shared/host-name.js'

/** Address and port at which SSH of a guest is reachable from outside. */
export interface SshPlace {
  /** Host name or address. "": SSH is not reachable, or the address is not known. */
  readonly host: string
  /** Port of SSH. 0: SSH is not reachable. */
  readonly port: number
}

type ReachableGuest = Pick<Guest, 'publicIpv4s' | 'ipv6Addresses' | 'sshPort' | 'portMappings'>

/**
 * Selects the guest's public IPv4 address, or else the mapping of SSH at the host, or else the guest's IPv6 address.
 * @param hostAddress public address of the host; "": not known
 */
export function planSshPlace(guest: ReachableGuest, hostAddress: string): SshPlace {
  const [own] = guest.publicIpv4s
  if (own !== undefined) return place(own, 22)
  if (guest.sshPort > 0) return place(mappedAddress(guest) || hostAddress, guest.sshPort)
  const [ownIpv6] = guest.ipv6Addresses
  return ownIpv6 === undefined ? { host: '', port: 0 } : place(ownIpv6, 22)
}

/** Address of the host at which SSH of the guest is mapped. "": all addresses of the host. */
function mappedAddress({ portMappings, sshPort }: ReachableGuest): string {
  const mapping = portMappings.find(
    ({ protocol, hostPort, hostPortEnd }) =>
      protocol === 'tcp' && hostPort <= sshPort && sshPort <= Math.max(hostPort, hostPortEnd),
  )
  return mapping?.hostIp ?? ''
}

/** Checks the address, because agents report it and users paste the resulting command into a shell. */
function place(text: string, port: number): SshPlace {
  const host = parseHostName(text)
  return { host: host !== undefined && isReachableName(host) ? host : '', port }
}

/** Command for users to connect by SSH. "": SSH is not reachable, or its address is not known. */
export function sshCommand({ host, port }: SshPlace): string {
  if (host === '' || port === 0) return ''
  return port === 22 ? `ssh root@${host}` : `ssh -p ${port} root@${host}`
}
