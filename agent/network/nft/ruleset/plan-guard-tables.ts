import { guestDevices } from './plan-bridge-table.js'
import { planOffBridge } from './plan-filter-table.js'
import { hook, inTable, lacksMark, rule, type Item } from './plan-items.js'

export interface GuardPlan {
  /** Name of the agent's nft tables. The guard drops guests' packets that these tables have not marked. */
  readonly table: string
  readonly bridge: string
  readonly interfacePrefix: string
}

export function guardTable(table: string): string {
  return `${table}_guard`
}

/*
 * Plans tables that drop guests' packets unless the agent's rules have marked them. If a program runs `nft flush
 * ruleset`, guests stay protected, but have no network until the agent repairs its rules. One process owns the tables
 * (`flags owner`, nft(8)): no other process can flush or delete them. When this process ends, the tables disappear, but
 * the agent's rules still protect guests.
 */
export function planGuardTables({ table, bridge, interfacePrefix }: GuardPlan): string[] {
  return [
    ...owned('bridge', table, [
      guestDevices(interfacePrefix),
      hook('prerouting', 'filter', -250),
      hook('forward', 'filter', -250),
      rule('prerouting', `iifname @guest_devices ${lacksMark('bridged')} drop`),
      rule('forward', `iifname @guest_devices ${lacksMark('hairpin')} drop`),
      rule('forward', `oifname @guest_devices ${lacksMark('hairpin')} drop`),
    ]),
    ...owned('inet', table, [
      ...planOffBridge(interfacePrefix),
      hook('input', 'filter', 5),
      hook('forward', 'filter', 5),
      rule('input', `iifname "${bridge}" ${lacksMark('filtered')} drop`),
      rule('forward', `iifname "${bridge}" ${lacksMark('filtered')} drop`),
      rule('forward', `oifname "${bridge}" ${lacksMark('filtered')} drop`),
    ]),
  ]
}

function owned(family: string, table: string, items: readonly Item[]): string[] {
  const [, ...rest] = inTable(family, guardTable(table), items)
  return [`add table ${family} ${guardTable(table)} { flags owner; }`, ...rest]
}
