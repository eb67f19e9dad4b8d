import { rm } from 'node:fs/promises'
import { allEnded } from '../../../shared/all-ended.js'
import { conflict } from '../../../shared/errors.js'
import type { Machine } from '../machine.js'
import type { QemuConfigStore } from './config-store.js'
import type { GuestNames } from '../common/guest-names.js'
import { startMachine, type QemuStartContext, type StartOrder } from './start.js'
import { clearMachine, stopMachine } from './stop.js'

export interface PowerContext extends QemuStartContext {
  readonly configs: QemuConfigStore
  readonly names: GuestNames
  readonly namePrefix: string
  /** Discards the cached data of a guest that has ended. */
  readonly forget: (name: string) => void
}

/** Starts and stops guests, and removes what they leave on the host. Listeners get no report of these stops. */
export class Power {
  constructor(private readonly context: PowerContext) {}

  start(machine: Machine, order: StartOrder): Promise<void> {
    const { names, machines } = this.context
    const name = names.freeNameOf(machine)
    return machines.whileBusy(name, () => startMachine(this.context, machine, order))
  }

  stop(machine: Machine, options: { timeoutMs: number; signal: AbortSignal }): Promise<void> {
    return this.#ending(machine, (name) => stopMachine(this.context, name, options))
  }

  kill(machine: Machine): Promise<void> {
    return this.#ending(machine, (name) => clearMachine(this.context, name))
  }

  async delete(machine: Machine): Promise<void> {
    await this.#ending(machine, async (name) => {
      if (!this.#isStopped(name))
        throw conflict('guest_running', `${name} cannot be deleted: it still has running processes`)
      await this.#remove(name)
    })
  }

  /**
   * Removes what a guest left on the host.
   * @returns false if the guest, or a process that may belong to it, still runs
   */
  async removeTraces(uuid: string): Promise<boolean> {
    const { configs, names, namePrefix } = this.context
    const name = configs.findName(uuid)
    const suspects = name === undefined ? names.listUnknown(namePrefix) : [name]
    if (!suspects.every((suspect) => this.#isStopped(suspect))) return false
    if (name !== undefined) await this.#remove(name)
    return true
  }

  /**
   * Shuts down every guest of this agent, all simultaneously. A guest that was never observed has no monitor
   * connection, and is killed after `timeoutMs`.
   * @throws the first error, after all guests were handled
   */
  async stopAll(timeoutMs: number): Promise<void> {
    const { machines, namePrefix, runtime } = this.context
    const { signal } = new AbortController()
    const stop = (name: string): Promise<void> =>
      machines.whileBusy(name, () => stopMachine(this.context, name, { timeoutMs, signal }))
    await allEnded(runtime.listNames(namePrefix).map(stop))
  }

  /** Kills every guest, even one without a configuration file, and removes what the driver created, except volumes. */
  async removeAll(): Promise<void> {
    const { configs, machines, namePrefix, paths, runtime } = this.context
    const names = new Set([...configs.listNames(), ...runtime.listNames(namePrefix)])
    for (const name of names) await machines.whileBusy(name, () => clearMachine(this.context, name))
    for (const path of [paths.configs, paths.runs]) await rm(path, { recursive: true, force: true })
  }

  #isStopped(name: string): boolean {
    return this.context.runtime.read(name).state === 'stopped'
  }

  async #remove(name: string): Promise<void> {
    const { configs, paths } = this.context
    await clearMachine(this.context, name)
    await rm(paths.runOf(name).directory, { recursive: true, force: true })
    await configs.remove(name)
  }

  /** Calls `act`, which ends the guest. Does nothing if another guest has the name. */
  async #ending(machine: Machine, act: (name: string) => Promise<void>): Promise<void> {
    const { forget, machines, names, paths } = this.context
    const name = paths.nameOf(machine.id)
    if (names.isForeign(machine)) return
    await machines.whileBusy(name, async () => {
      await act(name)
      forget(name)
      machines.forget(name)
    })
  }
}
