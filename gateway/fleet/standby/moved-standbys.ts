import { randomUUID } from 'node:crypto'
import type { Logger } from 'pino'
import type { StandbyChange } from '../../../proto/gen/berth/agent/v1/network.js'
import { BerthError, describeError } from '../../../shared/errors.js'
import type { GuestView } from '../contract.js'
import { noStandby } from '../move-contract.js'
import { findReported } from '../reported-guests.js'
import type { FleetState } from '../view.js'
import { planMoved, type MovedStep } from './plan-moved-standby.js'
import type { StandbyStore, StoredStandby } from './standby-store.js'
import type { Standbys } from './standbys.js'

export interface MovedStandbysOptions {
  readonly view: Pick<FleetState, 'findGuest' | 'findHost' | 'findState'>
  readonly standbys: Pick<Standbys, 'agent' | 'hasFeature'>
  readonly standbyStore: Pick<StandbyStore, 'replace'>
  readonly reached: (hostId: string, revision: number) => Promise<void>
  /** Notes for operators that a standby has ended. It can be called twice for the same standby. */
  readonly standbyEnded?: ((guest: GuestView, reason: string) => Promise<void>) | undefined
  readonly log: Logger
}

/**
 * Sets the standbys of moved guests again. The store keeps the old record until the new host has the standby. A killed
 * gateway or agent therefore loses nothing.
 */
export class MovedStandbys {
  constructor(private readonly options: MovedStandbysOptions) {}

  /**
   * Sets all standbys that guests have lost in a move. Never rejects.
   * @param relocating uuids of guests that move, or are restored on another host
   * @returns true if a further call is needed soon
   */
  async restoreAll(relocating: ReadonlySet<string>, stored: ReadonlyMap<string, StoredStandby>): Promise<boolean> {
    const restores = [...stored].map(([uuid, standby]) => this.#restoreQuietly(uuid, standby, relocating.has(uuid)))
    return (await Promise.all(restores)).includes(false)
  }

  /** @returns false if a further call is needed soon */
  async #restoreQuietly(uuid: string, stored: StoredStandby, isRelocating: boolean): Promise<boolean> {
    const view = this.options.view.findGuest(uuid)
    if (!view) return true
    try {
      return await this.#carryOut(view, stored, this.#plan(view, stored, isRelocating))
    } catch (error) {
      const reason = describeError(error)
      this.options.log.info({ guest: uuid, reason }, 'could not set the standby of a moved container; trying again')
      // A retry soon helps only if the guest has changed. Other errors wait for the check of the next minute.
      return !(error instanceof BerthError && error.code === 'precondition_failed')
    }
  }

  #plan(guest: GuestView, stored: StoredStandby, isRelocating: boolean): MovedStep {
    const { view } = this.options
    const { fromHostId } = stored
    const state = view.findState(fromHostId)
    const reported = state?.online ? findReported(state, guest.guest.uuid) : undefined
    const formerRole = reported && (reported.ownership?.role ?? 'owner')
    return planMoved(guest, { stored, isRelocating, former: view.findHost(fromHostId), formerRole })
  }

  async #carryOut(view: GuestView, stored: StoredStandby, step: MovedStep): Promise<boolean> {
    if (step.kind === 'set') return this.#set(view, stored, step.hostId)
    if (step.kind === 'end') await this.#end(view, stored, step.reason)
    return step.kind !== 'wait'
  }

  /** The new id makes all tickets and copies of the former standby invalid. */
  async #set(view: GuestView, stored: StoredStandby, hostId: string): Promise<boolean> {
    const { standbys, standbyStore, reached, log } = this.options
    const { uuid } = view.guest
    if (!standbys.hasFeature(view.hostId)) return true // older agents ignore the setting; a later check repeats this
    const { intervalMinutes, bandwidthMbps } = stored
    const value = { standbyId: randomUUID(), hostId, intervalMinutes, bandwidthMbps }
    const revision = await this.#change(view, view.guest.revision, value)
    if (!(await standbyStore.replace(uuid, stored.standbyId, { ...value, fromHostId: view.hostId }))) {
      // An administrator has changed or removed the standby in the meantime.
      await this.#change(view, revision, noStandby)
      return false
    }
    log.info({ guest: uuid, host: hostId }, 'the standby of a moved container was set again')
    await reached(view.hostId, revision)
    return true
  }

  /** @returns the revision of the guest after the change */
  async #change({ hostId, guest: { uuid } }: GuestView, ifRevision: number, value: StandbyChange): Promise<number> {
    const { settings } = this.options.standbys.agent(hostId)
    const change = { $case: 'standby', value } as const
    const { guest } = await settings.changeSetting({ uuid, operationId: '', ifRevision, change, portLimit: undefined })
    return guest?.revision ?? ifRevision
  }

  async #end(view: GuestView, stored: StoredStandby, reason: string): Promise<void> {
    const { standbyStore, standbyEnded, log } = this.options
    const { uuid, name } = view.guest
    await standbyEnded?.(view, reason)
    await standbyStore.replace(uuid, stored.standbyId, undefined)
    log.warn({ guest: uuid, name, reason }, 'the standby of a container has ended, because no host can store its copy')
  }
}
