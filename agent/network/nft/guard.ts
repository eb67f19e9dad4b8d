import { Nft } from '../../host/net/nft.js'
import { guardTable, planGuardTables, type GuardPlan } from './ruleset/plan-guard-tables.js'

/** Owns nft tables that block guests while the agent's rules are missing. The tables end with the guard's process. */
export class Guard {
  readonly #owner: Nft

  /** @param onLost called when the process that owns the tables was killed, which deletes the tables */
  constructor(
    private readonly nft: Nft,
    private readonly plan: GuardPlan,
    onLost: () => void,
  ) {
    this.#owner = new Nft({ lasting: true, onLost })
  }

  /**
   * Creates the guard's tables, unless they exist. Call this after the agent's own tables were created. The guard drops
   * all packets that lack the marks of the agent's tables.
   */
  async ensure(): Promise<void> {
    const have = await this.nft.readTable('inet', guardTable(this.plan.table))
    if (have === undefined) await this.#owner.apply(planGuardTables(this.plan))
  }

  /** Ends the process that owns the guard's tables. The kernel then deletes these tables. */
  close(): Promise<void> {
    return this.#owner.close()
  }
}
