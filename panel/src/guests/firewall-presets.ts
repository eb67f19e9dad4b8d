import type { FirewallRule } from '../api/types.ts'

/** Presets of a firewall. Each refuses all incoming connections except those to its ports. */
export const firewallPresets = ['ssh', 'web', 'closed'] as const
export type FirewallPreset = (typeof firewallPresets)[number]

type NewRule = Omit<FirewallRule, 'id'>

const ports: Readonly<Record<FirewallPreset, string>> = { ssh: '22', web: '22,80,443', closed: '' }
const any = { network: 'all', source_ip: '', port: '', description: '' } as const
/** Rules of every preset. The default action refuses all traffic, so ping and outgoing connections need a rule. */
const always: readonly NewRule[] = [
  { ...any, direction: 'in', protocol: 'icmp', action: 'ACCEPT' },
  { ...any, direction: 'out', protocol: 'all', action: 'ACCEPT' },
]

/** Returns the firewall of a preset, as the body of a request. */
export function presetFirewall(preset: FirewallPreset): {
  enabled: true
  default_action: 'DROP'
  rules: NewRule[]
} {
  const port = ports[preset]
  const incoming: NewRule[] = port === '' ? [] : [{ ...any, direction: 'in', protocol: 'tcp', action: 'ACCEPT', port }]
  return { enabled: true, default_action: 'DROP', rules: [...incoming, ...always] }
}
