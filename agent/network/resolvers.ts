import { isIP } from 'node:net'

const fallback = ['9.9.9.9', '1.1.1.1']
const most = 3

/**
 * Chooses name servers for guests, from the first text that names a server which guests can reach. Omits loopback
 * addresses and link-local IPv6 addresses.
 * @param resolvConfs texts in the form of resolv.conf(5)
 */
export function chooseResolvers(resolvConfs: readonly string[]): string[] {
  const found = resolvConfs.map(parseResolvers).find((servers) => servers.length > 0)
  return found?.slice(0, most) ?? fallback
}

function parseResolvers(resolvConf: string): string[] {
  return [...resolvConf.matchAll(/^nameserver[ \t]+(\S+)/gm)]
    .map(([, address = '']) => address)
    .filter((address) => isIP(address) !== 0 && !/^(127\.|::1$|fe80:)/i.test(address))
}
