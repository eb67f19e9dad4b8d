import type { Firewall, FirewallRule } from '../api/types.ts'

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

/** Returns a rule that permits incoming SSH connections from all addresses. */
export function sshRule(): NewRule {
  return { ...any, direction: 'in', protocol: 'tcp', action: 'ACCEPT', port: ports.ssh }
}

/** True if the firewall drops incoming SSH connections from every address. */
export function locksOutSsh({
  enabled,
  default_action: usual,
  rules,
}: Pick<Firewall, 'enabled' | 'default_action' | 'rules'>): boolean {
  const concerned = rules.filter(
    ({ direction, protocol, port }) =>
      direction === 'in' && (protocol === 'tcp' || protocol === 'all') && coversPort(port, Number(ports.ssh)),
  )
  // A rule for only some addresses or one network leaves SSH to the rules after it.
  const last = concerned.findIndex(({ network, source_ip: source }) => network === 'all' && source === '')
  const applied = last === -1 ? concerned : concerned.slice(0, last + 1)
  const isPermitted = applied.some(({ action }) => action === 'ACCEPT') || (last === -1 && usual === 'ACCEPT')
  return enabled && !isPermitted
}

/** @param text ports and ranges, such as `22,8000-8010`; empty: all ports */
function coversPort(text: string, port: number): boolean {
  const isInside = (part: string): boolean => {
    const [first = 0, last = first] = part.split('-').map(Number)
    return first <= port && port <= last
  }
  return text.trim() === '' || text.split(',').some(isInside)
}
