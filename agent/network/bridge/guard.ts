import { Nft } from '../../host/nft.js'
import { guardTable, planGuardTables, type GuardPlan } from '../ruleset/plan-guard-tables.js'

/** Keeps guests cut off while their rules are missing; lasts as long as the process that owns its tables. */
export class Guard {
  readonly #owner: Nft

  /** @param onLost the owner was killed: the kernel drops its tables and tells nobody */
  constructor(
    private readonly nft: Nft,
    private readonly plan: GuardPlan,
    onLost: () => void,
  ) {
    this.#owner = new Nft({ lasting: true, onLost })
  }

  /** To be called once the guarded tables are there. Another agent's guard for the same tables will do. */
  async ensure(): Promise<void> {
    const have = await this.nft.readTable('inet', guardTable(this.plan.table))
    if (have === undefined) await this.#owner.apply(planGuardTables(this.plan))
  }

  /** The tables go with their owner. */
  close(): Promise<void> {
    return this.#owner.close()
  }
}
