import { conflict } from '../../../shared/errors.js'
import { findTerminals } from '../../host/guest/guest-terminal.js'
import { lxcConsole, lxcProgram, lxcShell } from '../../host/guest/lxc.js'
import type { GuestNames } from '../common/guest-names.js'
import type { ConsoleMode, ConsolePlace, PasswordResult } from '../contract.js'
import type { Machine } from '../machine.js'
import { overrideRootPassword, setRootPassword } from './password.js'
import type { LxcPaths } from './paths.js'
import type { LxcRuntimeReader } from './runtime.js'

export interface LxcAccessContext {
  readonly paths: LxcPaths
  readonly runtime: LxcRuntimeReader
  readonly names: GuestNames
  /** Seccomp program for the processes that the driver starts inside guests. */
  readonly filter: Buffer
}

/** Opens a guest's consoles and sets its root password. */
export class LxcAccess {
  constructor(private readonly context: LxcAccessContext) {}

  async setPassword(machine: Machine, password: string): Promise<PasswordResult> {
    const { names, runtime, filter } = this.context
    const { state } = runtime.read(names.freeNameOf(machine))
    if (state === 'starting' || state === 'stopping')
      throw conflict('guest_busy', `the guest is ${state}: try again later`)
    const running = state === 'running' ? this.#container(machine) : undefined
    await setRootPassword(machine.volume, running, { password, filter })
    return 'applied'
  }

  async overridePassword(machine: Machine, password: string): Promise<PasswordResult> {
    const { names, runtime } = this.context
    const pids = runtime.payloadPids(names.freeNameOf(machine))
    await overrideRootPassword(machine.volume, password, pids)
    return 'applied'
  }

  findConsole(machine: Machine, mode: ConsoleMode, command: readonly string[]): ConsolePlace {
    const { names, runtime, filter } = this.context
    if (mode === 'vnc') throw conflict('unsupported', 'only virtual machines have a screen')
    const { state, monitor } = runtime.read(names.nameOf(machine))
    if (state !== 'running' || !monitor) throw conflict('guest_not_running', 'the guest is not running')
    const container = this.#container(machine)
    if (mode === 'serial') return { kind: 'program', ...lxcConsole(container) }
    const root = machine.isolation.userIdBase
    if (mode === 'run') return { kind: 'guest-program', ...lxcProgram(container, { filter, root, command }) }
    const shell = lxcShell(container, { filter, root, terminals: findTerminals(monitor.pid) })
    return { kind: 'guest-terminal', ...shell }
  }

  #container(machine: Machine): { lxcPath: string; name: string } {
    const { paths, names } = this.context
    return { lxcPath: paths.lxcPath, name: names.nameOf(machine) }
  }
}
