import { figure, median, type Figure } from './figures.js'
import type { WantedFirewall } from '../../shared/firewall-rules.js'
import type { WantedMapping } from '../../shared/port-mapping-rules.js'

/** The contents of a simulated host during a measurement. */
export interface Scenario {
  readonly name: string
  readonly guests: number
  /** Number of mapped ports of all guests together. Each mapping has a single port. */
  readonly mappings: number
  /** Number of mapped ports of the measured guest. The other guests share the remaining ports equally. */
  readonly ownMappings: number
  /** Number of rules in each guest's firewall; 0 for a disabled firewall. */
  readonly rules: number
}

export const actions = [
  'add a tcp mapping',
  'delete a tcp mapping',
  'add a udp mapping',
  'delete a udp mapping',
  'replace 50 firewall rules',
] as const
export type Action = (typeof actions)[number]

/** The agent, its class `Network`, nft(8) started for each change, and nft(8) started only once (`nft pipe`). */
export const systems = ['Berth', 'only its network', 'nft spawned', 'nft pipe'] as const
export type System = (typeof systems)[number]

/**
 * Pause in ms between two calls. After an answer, the agent continues to work, for example to remove the flows of a
 * deleted mapping. This work must not slow down the next call.
 */
export const restMs = 25

/** Durations in ms of all rounds of an action, by action and compared system. */
export type Times = Partial<Record<Action, Partial<Record<System, number[]>>>>

/** Records the duration of one round of an action. */
export function note(times: Times, { action, by }: { action: Action; by: System }, ms: number): void {
  const ofAction = (times[action] ??= {})
  ;(ofAction[by] ??= []).push(ms)
}

export function rowsOf(scenario: string, times: Times): Figure[] {
  return actions.flatMap((action) => {
    const taken = times[action]
    if (!taken) return []
    const medians = Object.fromEntries(systems.map((by) => [by, taken[by] && median(taken[by])]))
    return [figure(`${action}, ${scenario}`, 'ms', medians)]
  })
}

export function mappingAt(protocol: 'tcp' | 'udp', hostPort: number): WantedMapping {
  return { protocol, hostIp: '', hostPort, hostPortEnd: 0, containerPort: 22, containerPortEnd: 0, description: '' }
}

/** Makes a firewall with half of the rules for each direction. Firewalls of two versions have no rule in common. */
export function firewallOf(rules: number, version: number): WantedFirewall {
  return {
    enabled: rules > 0,
    defaultAction: 'DROP',
    rules: Array.from({ length: rules }, (_, i) => ({
      id: '',
      protocol: 'tcp',
      action: 'ACCEPT',
      network: 'ipv4',
      description: '',
      direction: i % 2 === 0 ? 'in' : 'out',
      sourceIp: `203.0.${i}.0/24`,
      port: String(1 + ((version * rules + i) % 65_000)),
    })),
  }
}
