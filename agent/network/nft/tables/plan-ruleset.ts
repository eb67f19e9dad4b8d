import { families } from '../ruleset/guest-sets.js'
import { planBridgeTable, type BridgeTablePlan } from '../ruleset/plan-bridge-table.js'
import { planFilterTable, type FilterTablePlan } from '../ruleset/plan-filter-table.js'
import { planNatTables, type NatTablesPlan } from '../ruleset/plan-nat-tables.js'

/** Parameters of the tables, without guests' data. All values come from the checked configuration. */
export type RulesetPlan = BridgeTablePlan & FilterTablePlan & NatTablesPlan

/*
 * The rules are the same for all guests. A guest adds only a few elements to sets (ruleset/guest-sets.ts) and, if it
 * has a firewall, two chains. Rules match only the bridge, the subnet, and guests' devices and addresses, so they do
 * not affect other traffic. `accept` ends only a chain of this table, so that other tables still decide.
 */

/** Plans the commands of a transaction that creates the tables without guests. Anti-spoofing comes first. */
export function planRuleset(plan: RulesetPlan): string[] {
  return [...planBridgeTable(plan), ...planFilterTable(plan), ...planNatTables(plan)]
}

/** Plans commands that remove the tables. They succeed even if the tables do not exist. */
export function planTableRemoval({ table }: Pick<RulesetPlan, 'table'>): string[] {
  return families.flatMap((family) => [`add table ${family} ${table}`, `delete table ${family} ${table}`])
}
