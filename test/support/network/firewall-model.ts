import type { Firewall, FirewallRule } from '../../../shared/firewall-rules.js'
import { clientAddress, clientAddress6 } from './network-lab.js'

/* This file computes the verdict of a firewall's rules for a probe, independently of nft. */

export const firstPort = 4000
export const lastPort = 4799

export const sources = {
  ipv4: [clientAddress, '198.51.100.0/29', '198.51.100.1-198.51.100.3', '203.0.113.0/24'],
  ipv6: [clientAddress6, '2001:db8:51::/64', '2001:db8:51::1-2001:db8:51::3', '2001:db8:99::/48'],
} as const
export const families = ['ipv4', 'ipv6'] as const
type Family = (typeof families)[number]

const noRule: FirewallRule = {
  id: 'r',
  direction: 'in',
  protocol: 'all',
  action: 'ACCEPT',
  network: 'all',
  sourceIp: '',
  port: '',
  description: '',
}
export const firewall = (
  rules: readonly Partial<FirewallRule>[],
  defaultAction: Firewall['defaultAction'] = 'DROP',
): Firewall => ({ enabled: true, defaultAction, rules: rules.map((rule) => ({ ...noRule, ...rule })) })

export interface Probe {
  readonly protocol: 'tcp' | 'udp' | 'icmp'
  readonly family: Family
  readonly port: number
}

/** Returns whether the firewall allows a flow between the guest and the client. */
export function isAllowed({ rules, defaultAction }: Firewall, direction: 'in' | 'out', probe: Probe): boolean {
  const first = rules.find((rule) => {
    const { protocol, network, sourceIp, port } = rule
    const family = sourceIp === '' ? network : sourceIp.includes(':') ? 'ipv6' : 'ipv4'
    const ports = port === '' ? [] : port.split(',').map((part) => part.split('-').map(Number))
    return (
      rule.direction === direction &&
      (protocol === 'all' || protocol === probe.protocol) &&
      (family === 'all' || family === probe.family) &&
      !['203.0.113.0/24', '2001:db8:99::/48'].includes(sourceIp) &&
      (port === '' || ports.some(([from = 0, to = from]) => from <= probe.port && probe.port <= to))
    )
  })
  return (first?.action ?? defaultAction) === 'ACCEPT'
}

/** Makes rules of one protocol: every combination of port list, source and address family, each with ten ports. */
export function rulesByPort(base: Partial<FirewallRule>): Partial<FirewallRule>[] {
  const wanted = families.flatMap((network) => ['', ...sources[network]].map((sourceIp) => ({ network, sourceIp })))
  const all = [{ network: 'all', sourceIp: '' } as const, ...wanted]
  const forms = [
    (port: number) => `${port}`,
    (port: number) => `${port},${port + 2}`,
    (port: number) => `${port}-${port + 2}`,
  ]
  return all.flatMap((rule, i) =>
    forms.map((form, j) => ({ ...base, ...rule, port: form(firstPort + 10 * (i * forms.length + j)) })),
  )
}
