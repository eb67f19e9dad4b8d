import { Nft } from '../../host/net/nft.js'
import { guardTable, planGuardTables, type GuardPlan } from './ruleset/plan-guard-tables.js'

/** Cuts guests off while their rules are missing, as long as the process that owns the guard's tables lives. */
export class Guard {
  readonly #owner: Nft

  /** @param onLost called when the owner was killed: the kernel then drops its tables without a notification */
  constructor(
    private readonly nft: Nft,
    private readonly plan: GuardPlan,
    onLost: () => void,
  ) {
    this.#owner = new Nft({ lasting: true, onLost })
  }

  /**
   * Creates the guard if it is missing; call it once the guarded tables exist. Another agent's guard for the same
   * tables is sufficient.
   */
  async ensure(): Promise<void> {
    const have = await this.nft.readTable('inet', guardTable(this.plan.table))
    if (have === undefined) await this.#owner.apply(planGuardTables(this.plan))
  }

  /** Ends the owner, and the guard's tables with it. */
  close(): Promise<void> {
    return this.#owner.close()
  }
}
