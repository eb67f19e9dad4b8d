import type { Logger } from 'pino'
import { conflict } from '../../../shared/errors.js'
import type { GuestNames } from '../common/guest-names.js'
import type { UsageReader } from '../common/usage.js'
import type { Machine } from '../machine.js'
import type { LxcConfigStore } from './config-store.js'
import { thawContainer } from './freeze.js'
import { removeLeftovers } from './leftovers.js'
import { removeAll } from './remove-all.js'
import { startGuest } from './start.js'
import { stopAll } from './stop-all.js'
import { killGuest, stopGuest, type LxcStopContext, type StopTarget } from './stop.js'
import type { StoppedEvents } from './stopped-events.js'

export interface LxcPowerContext extends LxcStopContext {
  readonly configs: LxcConfigStore
  readonly names: GuestNames
  readonly events: StoppedEvents
  readonly namePrefix: string
  /** Arguments that set up a guest's namespace (support-files.ts). */
  readonly namespace: readonly string[]
  readonly usage: UsageReader
  readonly log: Logger
}

/** Starts and stops guests, and removes what they leave on the host. Does not report these stops to listeners. */
export class LxcPower {
  constructor(private readonly context: LxcPowerContext) {}

  async start(machine: Machine, signal: AbortSignal): Promise<void> {
    const { names, events } = this.context
    const name = names.freeNameOf(machine)
    await events.whileBusy(name, async () => {
      const running = await startGuest({ ...this.context, clearMark: (of) => events.clearMark(of) }, machine, signal)
      events.track(name, machine.uuid, running)
    })
  }

  stop(machine: Machine, options: { timeoutMs: number; signal: AbortSignal }): Promise<void> {
    return this.#ending(machine, (target) => stopGuest(this.context, target, options))
  }

  kill(machine: Machine): Promise<void> {
    return this.#ending(machine, (target) => killGuest(this.context, target))
  }

  async delete(machine: Machine): Promise<void> {
    const { runtime } = this.context
    await this.#ending(machine, async (target) => {
      if (runtime.read(target.name).state !== 'stopped')
        throw conflict('guest_running', `${target.name} cannot be deleted: it still has running processes`)
      await removeLeftovers(runtime, target)
      this.#discardConfig(target.name)
    })
  }

  /** Removes a guest's configuration. @returns false if the guest, or a process that may belong to it, still runs */
  async removeTraces(uuid: string): Promise<boolean> {
    const { configs, names, namePrefix, runtime } = this.context
    const name = configs.findName(uuid)
    const suspects = name === undefined ? names.listUnknown(namePrefix) : [name]
    if (suspects.some((suspect) => runtime.read(suspect).state !== 'stopped')) return false
    if (name !== undefined) await configs.remove(name)
    return true
  }

  /** Shuts down every guest of this agent, even one without a configuration file. Kills guests that take too long. */
  stopAll(timeoutMs: number): Promise<void> {
    return stopAll({ ...this.context, clearMark: (name) => this.context.events.clearMark(name) }, timeoutMs)
  }

  /** Kills every guest, even one without a configuration file. Removes what the driver has created, except volumes. */
  removeAll(): Promise<void> {
    return removeAll(this.context, this.context.configs, this.context.namePrefix)
  }

  /** Calls `act`, which ends the guest. If another guest uses the name, `machine` has ended, and nothing is done. */
  async #ending(machine: Machine, act: (target: StopTarget) => Promise<void>): Promise<void> {
    const { names, events, runtime, usage } = this.context
    if (names.isForeign(machine)) return
    const name = names.nameOf(machine)
    return events.whileBusy(name, async () => {
      thawContainer(runtime.cgroups, name) // a frozen guest would not end even when killed
      await act({ name, device: machine.nic.device })
      usage.forget(name)
      events.forget(name)
    })
  }

  /**
   * Removes the configuration in the background, because this takes tens of milliseconds. If the agent crashes first,
   * the reconciler removes the configuration later, like that of any deleted guest.
   */
  #discardConfig(name: string): void {
    const { configs, log } = this.context
    configs
      .remove(name)
      .catch((err: unknown) =>
        log.warn({ err, name }, 'the configuration of a deleted guest could not be removed; it will be removed later'),
      )
  }
}
