import { conflict } from '../../../shared/errors.js'
import type { GuestNames } from '../common/guest-names.js'
import type { ConsoleMode, ConsolePlace, PasswordResult } from '../contract.js'
import type { CurrentLogin, Machine } from '../machine.js'
import { readCurrentLogin } from './current-login.js'
import type { Machines } from './machines.js'
import { setPassword } from './password.js'
import type { QemuPaths, RunPaths } from './paths.js'
import type { QemuRuntimeReader } from './runtime.js'
import { takeScreenshot } from './screenshot.js'
import { tellMachine } from './tell.js'

export interface QemuAccessContext {
  readonly paths: QemuPaths
  readonly runtime: QemuRuntimeReader
  readonly machines: Machines
  readonly names: GuestNames
  /** Path of the host's key, which encrypts passwords. */
  readonly keyFile: string
}

/** Opens a guest's consoles and its screen, and reads and sets its login. */
export class QemuAccess {
  constructor(private readonly context: QemuAccessContext) {}

  /** Writes the guest's seed: a CD from which the guest's system reads its name, addresses and login. */
  tell(machine: Machine): Promise<void> {
    const { paths, names, keyFile } = this.context
    return tellMachine(machine, { seed: paths.seedOf(names.nameOf(machine)), keyFile })
  }

  async setPassword(machine: Machine, password: string): Promise<PasswordResult> {
    const { paths, names } = this.context
    const name = names.freeNameOf(machine)
    const tell = (): Promise<void> => this.tell(machine)
    return setPassword(
      { run: paths.runOf(name), running: this.#isRunning(name), volume: machine.volume, tell },
      password,
    )
  }

  async readLogin(machine: Machine): Promise<CurrentLogin | undefined> {
    const { paths, names } = this.context
    const name = names.freeNameOf(machine)
    return readCurrentLogin(machine.volume, this.#isRunning(name) ? paths.runOf(name) : undefined)
  }

  /** Finds the socket of a console. The text console is the serial port, which asks for a login. */
  findConsole(machine: Machine, mode: ConsoleMode): ConsolePlace {
    const { screen, serial } = this.#runningPaths(machine)
    if (mode === 'run') throw conflict('unsupported', 'programs cannot be run in a virtual machine this way: use SSH')
    return { kind: 'socket', path: mode === 'vnc' ? screen : serial }
  }

  async screenshot(machine: Machine): Promise<Buffer> {
    const { work } = this.#runningPaths(machine)
    const monitor = await this.context.machines.monitor(this.context.names.nameOf(machine))
    return takeScreenshot(monitor, work, machine.isolation.userIdBase)
  }

  #runningPaths(machine: Machine): RunPaths {
    const name = this.context.names.nameOf(machine)
    if (this.#isRunning(name)) return this.context.paths.runOf(name)
    throw conflict('guest_not_running', 'the guest is not running')
  }

  #isRunning(name: string): boolean {
    return this.context.runtime.read(name).state === 'running'
  }
}
