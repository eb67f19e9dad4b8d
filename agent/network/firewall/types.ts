/** A guest's own firewall, as validated and journaled. Disabled: everything that the network lets through. */
export interface Firewall {
  readonly enabled: boolean
  /** Of what no rule matches. */
  readonly defaultAction: FirewallAction
  /** The first that matches decides. */
  readonly rules: readonly FirewallRule[]
}

export type FirewallAction = 'ACCEPT' | 'DROP'

export interface FirewallRule {
  /** Made by the backend. */
  readonly id: string
  /** Who opened the flow: `in` the remote side, `out` the guest. A rule holds for both ways of such flows. */
  readonly direction: 'in' | 'out'
  /** `icmp` is ICMP and ICMPv6. */
  readonly protocol: 'tcp' | 'udp' | 'icmp' | 'all'
  readonly action: FirewallAction
  readonly network: 'ipv4' | 'ipv6' | 'all'
  /** The remote side: address, CIDR or range `A-B`; empty: any. */
  readonly sourceIp: string
  /** Of the side that is connected to: `80`, `80,443`, `1000-2000`, also mixed; empty: any. */
  readonly port: string
  readonly description: string
}
