import { isIP } from 'node:net'

const fallback = ['9.9.9.9', '1.1.1.1']
const most = 3

/**
 * Name servers for guests from the text of the host's resolv.conf: without those that a guest cannot reach:
 * loopback, and link-local ones of IPv6.
 * Source: resolv.conf(5)
 */
export function parseResolvers(resolvConf: string): string[] {
  const servers = [...resolvConf.matchAll(/^nameserver[ \t]+(\S+)/gm)]
    .map(([, address = '']) => address)
    .filter((address) => isIP(address) !== 0 && !/^(127\.|::1$|fe80:)/i.test(address))
  return servers.length > 0 ? servers.slice(0, most) : fallback
}
