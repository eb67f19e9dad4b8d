import { Nft } from '../../host/net/nft.js'
import { guardTable, planGuardTables, type GuardPlan } from './ruleset/plan-guard-tables.js'

/** Keeps tables in nft that disconnect guests while the agent's rules are missing. They end with its nft process. */
export class Guard {
  readonly #owner: Nft

  /** @param onLost called when the process that owns the tables was killed: the kernel deletes them without notice */
  constructor(
    private readonly nft: Nft,
    private readonly plan: GuardPlan,
    onLost: () => void,
  ) {
    this.#owner = new Nft({ lasting: true, onLost })
  }

  /**
   * Creates the guard unless it exists, even if another agent created it. Call it after the agent's own tables were
   * created, because the guard drops all packets that they have not marked.
   */
  async ensure(): Promise<void> {
    const have = await this.nft.readTable('inet', guardTable(this.plan.table))
    if (have === undefined) await this.#owner.apply(planGuardTables(this.plan))
  }

  /** Ends the owner process, and with it the guard's tables. */
  close(): Promise<void> {
    return this.#owner.close()
  }
}
