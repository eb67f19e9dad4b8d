import type { PolicyKeeper } from '../context.js'
import type { GuestRecord } from '../record.js'
import { changeGuest, type Change, type ChangeContext, type Target } from './change.js'
import { parseTime, parseTrafficLimit, type TrafficChange } from './parse.js'

/** Quota and expiry of a guest: what decides whether it may run. In force when answered. */
export class PolicySettings {
  constructor(
    private readonly context: ChangeContext,
    private readonly keeper: PolicyKeeper,
  ) {}

  /** What is not sent stays. @throws {BerthError} `invalid_field`, and those of `changeGuest` */
  setTrafficLimit(target: Target, wanted: TrafficChange): Promise<GuestRecord> {
    const { store } = this.context
    const write: Change['write'] = ({ uuid, traffic: old }) => {
      store.update(uuid, { traffic: parseTrafficLimit(wanted, old) })
      return () => store.update(uuid, { traffic: old })
    }
    return this.#change(target, { write })
  }

  /**
   * Begins to count anew; what came until now belongs to before. It goes on where that cannot be counted: a guest
   * that is blocked is freed all the same, and what came since the last look is of the new count.
   * @throws {BerthError} those of `changeGuest`
   */
  resetTraffic(target: Target): Promise<GuestRecord> {
    const write: Change['write'] = ({ uuid }) => {
      this.keeper.resetUse(uuid)
      return () => undefined
    }
    return this.#change(target, { prepare: () => this.keeper.count(), write })
  }

  /**
   * A time that has passed blocks at once.
   * @param expiresAtMs 0: never
   * @throws {BerthError} `invalid_field`, and those of `changeGuest`
   */
  setExpiry(target: Target, expiresAtMs: number): Promise<GuestRecord> {
    const { store } = this.context
    const write: Change['write'] = ({ uuid, expiresAtMs: old }) => {
      store.update(uuid, { expiresAtMs: parseTime('expires_at', expiresAtMs) })
      return () => store.update(uuid, { expiresAtMs: old })
    }
    return this.#change(target, { write })
  }

  /** Judged after the guest's turn, which whoever judges takes himself. */
  async #change(target: Target, change: Change): Promise<GuestRecord> {
    await changeGuest(this.context, target, change)
    await this.keeper.judge(target.uuid)
    return this.context.store.get(target.uuid)
  }
}
