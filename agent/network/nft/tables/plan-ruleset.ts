import { families } from '../ruleset/guest-sets.js'
import { planBridgeTable, type BridgeTablePlan } from '../ruleset/plan-bridge-table.js'
import { planFilterTable, type FilterTablePlan } from '../ruleset/plan-filter-table.js'
import { planNatTables, type NatTablesPlan } from '../ruleset/plan-nat-tables.js'

/** Parameters of the tables besides the guests; all of them are validated configuration. */
export type RulesetPlan = BridgeTablePlan & FilterTablePlan & NatTablesPlan

/*
 * The rules do not depend on the number of guests: guests are elements (ruleset/guest-sets.ts), and those with a
 * firewall have two chains each. Rules match only the bridge, the subnet and guests' devices and addresses, so that
 * other traffic and other tables are not affected; `accept` ends only our own chain.
 */

/** Plans the tables without elements, as commands of one transaction. Anti-spoofing comes first. */
export function planRuleset(plan: RulesetPlan): string[] {
  return [...planBridgeTable(plan), ...planFilterTable(plan), ...planNatTables(plan)]
}

/** Removes the tables whether they exist or not. */
export function planTableRemoval({ table }: Pick<RulesetPlan, 'table'>): string[] {
  return families.flatMap((family) => [`add table ${family} ${table}`, `delete table ${family} ${table}`])
}
