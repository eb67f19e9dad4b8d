import type { PolicyKeeper } from '../context.js'
import type { GuestRecord } from '../record/record.js'
import type { GuestUpdate } from '../record/rows.js'
import { changeGuest, type SettingChange, type ChangeContext, type Target } from './change.js'
import { parseSuspension, planSuspend, planUnsuspend, type SuspensionOrder } from '../policy/suspension.js'
import { parseTime, parseTrafficLimit, type TrafficChange } from '../parse-settings.js'

/**
 * Changes a guest's quota, expiry and suspension, which decide whether the guest is allowed to run. Each call returns
 * when the change has taken effect.
 */
export class PolicySettings {
  constructor(
    private readonly context: ChangeContext,
    private readonly keeper: PolicyKeeper,
  ) {}

  /**
   * Sets the quota. Undefined fields keep their value.
   * @throws {BerthError} `invalid_field`, and the errors of `changeGuest`
   */
  setTrafficLimit(target: Target, wanted: TrafficChange): Promise<GuestRecord> {
    const { store } = this.context
    const write: SettingChange['write'] = ({ uuid, traffic: old }) => {
      store.update(uuid, { traffic: parseTrafficLimit(wanted, old) })
      return () => store.update(uuid, { traffic: old })
    }
    return this.#change(target, { write })
  }

  /**
   * Restarts the count of traffic at 0. If the counters cannot be read, this is only logged, because the suspension for
   * a used-up quota must end anyway. In this case, the new count includes the traffic since the last reading.
   * @throws {BerthError} the errors of `changeGuest`
   */
  resetTraffic(target: Target): Promise<GuestRecord> {
    const write: SettingChange['write'] = ({ uuid }) => {
      this.keeper.resetUse(uuid)
      return () => undefined
    }
    return this.#change(target, { prepare: () => this.keeper.count(), write })
  }

  /**
   * Sets the expiry time. A time in the past suspends the guest immediately.
   * @param expiresAtMs ms since 1970; 0: never
   * @throws {BerthError} `invalid_field`, and the errors of `changeGuest`
   */
  setExpiry(target: Target, expiresAtMs: number): Promise<GuestRecord> {
    const { store } = this.context
    const write: SettingChange['write'] = ({ uuid, expiresAtMs: old }) => {
      store.update(uuid, { expiresAtMs: parseTime('expires_at', expiresAtMs) })
      return () => store.update(uuid, { expiresAtMs: old })
    }
    return this.#change(target, { write })
  }

  /**
   * Suspends the guest, or changes its suspension (docs/design/suspension.md).
   * @throws {BerthError} `invalid_field`, and the errors of `changeGuest`
   */
  suspend(target: Target, order: SuspensionOrder): Promise<GuestRecord> {
    return this.#change(target, {
      write: (record) => {
        const nowMs = this.context.now()
        return this.#write(record, planSuspend(record, parseSuspension(order, nowMs), nowMs))
      },
    })
  }

  /** Ends a suspension that an administrator has set. If there are other reasons, the guest stays suspended. */
  unsuspend(target: Target): Promise<GuestRecord> {
    return this.#change(target, { write: (record) => this.#write(record, planUnsuspend(record)) })
  }

  #write({ uuid, suspension, wanted }: GuestRecord, update: GuestUpdate): () => void {
    this.context.store.update(uuid, update)
    return () => this.context.store.update(uuid, { suspension, wanted })
  }

  /** Changes the guest, and then calls `judge`. The change and `judge` lock the guest's mutex one after the other. */
  async #change(target: Target, change: SettingChange): Promise<GuestRecord> {
    await changeGuest(this.context, target, change)
    await this.keeper.judge(target.uuid)
    return this.context.store.get(target.uuid)
  }
}
