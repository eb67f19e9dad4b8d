import { families } from '../ruleset/guest-sets.js'
import { planBridgeTable, type BridgeTablePlan } from '../ruleset/plan-bridge-table.js'
import { planFilterTable, type FilterTablePlan } from '../ruleset/plan-filter-table.js'
import { planNatTables, type NatTablesPlan } from '../ruleset/plan-nat-tables.js'

/** What the tables depend on beside the guests. All of it is validated configuration. */
export type RulesetPlan = BridgeTablePlan & FilterTablePlan & NatTablesPlan

/*
 * Rules are the same however many guests there are; guests are elements (ruleset/guest-sets.ts), and those
 * with a firewall have two chains of their own. Only the bridge, the subnet and guests' devices and addresses
 * are matched, so that foreign traffic and foreign tables are not touched; `accept` ends nothing but our own
 * chain.
 */

/** The tables without elements, as commands of one transaction. Anti-spoofing comes first. */
export function planRuleset(plan: RulesetPlan): string[] {
  return [...planBridgeTable(plan), ...planFilterTable(plan), ...planNatTables(plan)]
}

/** Removes the tables, there or not. */
export function planRemoval({ table }: Pick<RulesetPlan, 'table'>): string[] {
  return families.flatMap((family) => [`add table ${family} ${table}`, `delete table ${family} ${table}`])
}
