import { join } from 'node:path'

/** All host paths and names that the driver uses, derived from the agent's directories and name prefix. */
export interface QemuPaths {
  /** Directory that contains, for each guest, a directory with the files of its next start. */
  readonly configs: string
  /** Directory that contains, for each guest, a directory with its files while it runs. */
  readonly runs: string
  readonly nameOf: (id: number) => string
  /** Name of a guest's cgroup in every hierarchy. */
  readonly groupOf: (name: string) => string
  readonly configOf: (name: string) => string
  readonly seedOf: (name: string) => string
  readonly runOf: (name: string) => RunPaths
}

export interface RunPaths {
  readonly directory: string
  /** QEMU's working directory. It belongs to QEMU's user at first, and to root from the start of QEMU. */
  readonly work: string
  readonly log: string
  readonly lock: string
  /** File with the parameters that the guest was started with. */
  readonly launched: string
  /** File that exists after the guest has shut down by itself, until an agent has processed the shutdown. */
  readonly ended: string
  /** File that exists while the guest's file systems are frozen, or may be. */
  readonly frozen: string
  /** File that exists while QEMU receives the memory of a guest from another host, until the guest runs here. */
  readonly arriving: string
  /** File that exists from shortly before the move pauses this guest until it runs again or its QEMU has ended. */
  readonly leaving: string
  /** Socket of an arriving guest's QEMU, which receives the memory. */
  readonly incoming: string
  /** Socket of the agent to which QEMU sends the memory of a guest that moves to another host. */
  readonly outgoing: string
  readonly monitor: string
  readonly secondMonitor: string
  readonly serial: string
  readonly agent: string
  /** Socket of the guest's screen (RFB protocol). */
  readonly screen: string
}

export const groupPrefix = 'kvm.payload.'

export function qemuPaths(options: { stateDir: string; runDir: string; namePrefix: string }): QemuPaths {
  const configs = join(options.stateDir, 'kvm')
  const runs = join(options.runDir, 'kvm')
  return {
    configs,
    runs,
    nameOf: (id) => `${options.namePrefix}-${id}`,
    groupOf: (name) => `${groupPrefix}${name}`,
    configOf: (name) => join(configs, name, 'machine.json'),
    seedOf: (name) => join(configs, name, 'seed.iso'),
    runOf: (name) => runPaths(join(runs, name)),
  }
}

function runPaths(directory: string): RunPaths {
  const at = (file: string): string => join(directory, file)
  return {
    directory,
    work: at('work'),
    log: at('log'),
    lock: at('lock'),
    launched: at('launched.json'),
    ended: at('ended'),
    frozen: at('frozen'),
    arriving: at('arriving'),
    leaving: at('leaving'),
    incoming: at('work/incoming'),
    outgoing: at('work/outgoing'),
    monitor: at('qmp'),
    secondMonitor: at('qmp2'),
    serial: at('serial'),
    agent: at('agent'),
    screen: at('work/vnc'),
  }
}

/** Path of the guest's disk in its volume. The data for its first boot is at `instanceOf`. */
export const diskOf = (volume: string): string => join(volume, 'disk.raw')
export const instanceOf = (volume: string): string => join(volume, 'instance.json')
/** Path of the file with the requirements that the system on the disk has for its virtual machine. */
export const systemOf = (volume: string): string => join(volume, 'system.json')
/** Path of the firmware variables, which only exist with UEFI. */
export const firmwareVarsOf = (volume: string): string => join(volume, 'vars.fd')
export const tpmOf = (volume: string): string => join(volume, 'tpm')
