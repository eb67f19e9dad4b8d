import type { AlertAction } from '../../shared/abuse.js'
import { findSetting, putSetting } from '../state/settings-table.js'
import type { GuestContext, PolicyKeeper } from '../guests/context.js'
import { liftAbuse } from '../guests/policy/policy.js'
import type { AlertState } from './plan-merge.js'
import { planShutdown } from './plan-shutdown.js'
import type { AlertRecord, AlertStore } from './alert-store.js'

const settingKey = 'security_auto_shutdown'

export interface ShutdownParts {
  readonly context: Pick<GuestContext, 'config' | 'store' | 'log' | 'now'>
  readonly alerts: AlertStore
  readonly policy: Pick<PolicyKeeper, 'judge'>
}

export interface SwitchedOff {
  /** Uuids of guests whose planned stop was canceled. */
  readonly canceledStops: readonly string[]
  /** Uuids of guests whose suspension because of abuse was ended. */
  readonly clearedBlocks: readonly string[]
}

/** Stops guests with critical alerts, if an administrator has enabled this. The setting survives a restart. */
export class AbuseShutdown {
  constructor(private readonly parts: ShutdownParts) {}

  get enabled(): boolean {
    return findSetting(this.parts.context.store.changes.db, settingKey) === '1'
  }

  /** Enables or disables stops. Disabling cancels planned stops, and ends the suspension of stopped guests. */
  async set(enabled: boolean): Promise<SwitchedOff> {
    const { store } = this.parts.context
    const done = store.changes.transaction(() => {
      putSetting(store.changes.db, settingKey, enabled ? '1' : '0')
      return enabled ? { canceledStops: [], clearedBlocks: [] } : this.#undoAll()
    })
    for (const uuid of done.clearedBlocks) await this.parts.policy.judge(uuid)
    return done
  }

  /** Takes the next step of each open alert: plans or cancels the stop of the guest, or stops the guest. */
  async look(): Promise<void> {
    const { alerts, context } = this.parts
    const { security } = context.config
    const nowMs = context.now()
    const view = {
      nowMs,
      lookMs: security.interval_seconds * 1000,
      enabled: this.enabled && security.enabled,
      isStoppable: (alert: AlertState) => this.#isStoppable(alert),
    }
    for (const alert of alerts.open(nowMs)) {
      if (this.#isMoving(alert)) continue // the alert moves as it is, and the host that owns the guest then decides
      const step = planShutdown(alert, view)
      if (step === 'begin') this.#mark(alert, 'stop_pending', nowMs + security.grace_seconds * 1000)
      else if (step === 'cancel') this.#mark(alert, 'canceled', nowMs)
      else if (step === 'stop') await this.#stop(alert)
      else if (alert.action === 'stopped' && !this.#isSuspended(alert)) this.#mark(alert, 'lifted', nowMs)
    }
  }

  /**
   * Stops the guest because of abuse. The decision is stored with the alert, so that the stop follows even if the agent
   * crashes.
   */
  async #stop(alert: AlertRecord): Promise<void> {
    const { context, policy } = this.parts
    const { store, log } = context
    store.changes.transaction(() => {
      const record = store.get(alert.guestUuid)
      store.update(record.uuid, { policy: { ...record.policy, abuse: alert.type } })
      this.#mark(alert, 'stopped', context.now())
    })
    log.warn({ guest: alert.guestUuid, type: alert.type, detail: alert.detail }, 'a guest was stopped because of abuse')
    await policy.judge(alert.guestUuid)
  }

  #undoAll(): SwitchedOff {
    const { alerts, context } = this.parts
    const { store } = context
    const nowMs = context.now()
    const pending = alerts.open(nowMs).filter(({ action }) => action === 'stop_pending')
    for (const alert of pending) this.#mark(alert, 'canceled', nowMs)
    const suspended = store.list().filter(({ policy }) => policy.abuse !== undefined)
    for (const record of suspended) liftAbuse(store, record)
    return {
      canceledStops: [...new Set(pending.map(({ guestUuid }) => guestUuid))],
      clearedBlocks: suspended.map(({ uuid }) => uuid),
    }
  }

  #mark(
    { id, revision: _revision, moved: _moved, ...alert }: AlertRecord,
    action: AlertAction,
    stopAtMs: number,
  ): void {
    this.parts.alerts.put(id, { ...alert, action, stopAtMs })
  }

  #isSuspended({ guestUuid }: AlertState): boolean {
    return this.parts.context.store.find(guestUuid)?.policy.abuse !== undefined
  }

  #isMoving({ guestUuid }: AlertState): boolean {
    const role = this.parts.context.store.find(guestUuid)?.ownership.role
    return role === 'leaving' || role === 'handed_over'
  }

  #isStoppable({ guestUuid }: AlertState): boolean {
    const record = this.parts.context.store.find(guestUuid)
    return (
      record !== undefined &&
      !record.security.exempt &&
      record.policy.abuse === undefined &&
      record.status !== 'deleting' &&
      record.wanted === 'running'
    )
  }
}
