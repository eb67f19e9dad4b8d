import type { GuestContext, PolicyKeeper } from '../context.js'
import type { GuestRecord } from '../record.js'
import { changeGuest, type Change, type Target } from './change.js'
import { parseTime, parseTrafficLimit, type TrafficChange } from './parse.js'

/** Quota and expiry of a guest: what decides whether it may run. In force when answered. */
export class PolicySettings {
  constructor(
    private readonly context: GuestContext,
    private readonly keeper: PolicyKeeper,
  ) {}

  /** What is not sent stays. @throws {BerthError} `invalid_field`, and those of `changeGuest` */
  setTrafficLimit(target: Target, wanted: TrafficChange): Promise<GuestRecord> {
    const { store } = this.context
    return this.#change(target, ({ uuid, traffic: old }) => {
      store.update(uuid, { traffic: parseTrafficLimit(wanted, old) })
      return () => store.update(uuid, { traffic: old })
    })
  }

  /** Begins to count anew. @throws {BerthError} those of `changeGuest` */
  resetTraffic(target: Target): Promise<GuestRecord> {
    return this.#change(target, ({ uuid }) => {
      this.keeper.resetUse(uuid)
      return () => undefined
    })
  }

  /**
   * A time that has passed blocks at once.
   * @param expiresAtMs 0: never
   * @throws {BerthError} `invalid_field`, and those of `changeGuest`
   */
  setExpiry(target: Target, expiresAtMs: number): Promise<GuestRecord> {
    const { store } = this.context
    return this.#change(target, ({ uuid, expiresAtMs: old }) => {
      store.update(uuid, { expiresAtMs: parseTime('expires_at', expiresAtMs) })
      return () => store.update(uuid, { expiresAtMs: old })
    })
  }

  /** Judged after the guest's turn, which whoever judges takes himself. */
  async #change(target: Target, write: Change['write']): Promise<GuestRecord> {
    await changeGuest(this.context, target, { write })
    await this.keeper.judge(target.uuid)
    return this.context.store.get(target.uuid)
  }
}
