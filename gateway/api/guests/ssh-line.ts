import type { Guest } from '../../../proto/gen/berth/agent/v1/guest.js'
import { isReachableName, parseHostName } from '../../../shared/host-name.js'

/** Address and port for SSH to a guest from outside. */
export interface SshPlace {
  /** "": no port leads to SSH, or no reachable address is known. */
  readonly host: string
  /** 0: there is none. */
  readonly port: number
}

type ReachableGuest = Pick<Guest, 'publicIpv4s' | 'ipv6Addresses' | 'sshPort' | 'portMappings'>

/**
 * The guest's IPv4 address, else the host's port that leads to SSH, else the guest's IPv6 address.
 * @param hostAddress public address of its host; "": not known
 */
export function planSshPlace(guest: ReachableGuest, hostAddress: string): SshPlace {
  const [own] = guest.publicIpv4s
  if (own !== undefined) return place(own, 22)
  if (guest.sshPort > 0) return place(mappedAddress(guest) || hostAddress, guest.sshPort)
  const [ownIpv6] = guest.ipv6Addresses
  return ownIpv6 === undefined ? { host: '', port: 0 } : place(ownIpv6, 22)
}

/** The address that the mapping of SSH names; "": the mapping is valid for every address of the host. */
function mappedAddress({ portMappings, sshPort }: ReachableGuest): string {
  const mapping = portMappings.find(
    ({ protocol, hostPort, hostPortEnd }) =>
      protocol === 'tcp' && hostPort <= sshPort && sshPort <= Math.max(hostPort, hostPortEnd),
  )
  return mapping?.hostIp ?? ''
}

/** Users paste this command, so only valid addresses reported by agents may become part of it. */
function place(text: string, port: number): SshPlace {
  const host = parseHostName(text)
  return { host: host !== undefined && isReachableName(host) ? host : '', port }
}

/** "": SSH is not reachable from outside, or its address is not known. */
export function sshCommand({ host, port }: SshPlace): string {
  if (host === '' || port === 0) return ''
  return port === 22 ? `ssh root@${host}` : `ssh -p ${port} root@${host}`
}
