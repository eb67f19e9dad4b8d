import { join } from 'node:path'

/** All host paths and names that the driver uses, derived from the instance's directories and name prefix. */
export interface QemuPaths {
  /** Has a directory for each guest with what its next start needs. */
  readonly configs: string
  /** Has a directory for each guest with what it has while it runs. */
  readonly runs: string
  readonly nameOf: (id: number) => string
  /** Of a guest's group in every hierarchy. */
  readonly groupOf: (name: string) => string
  readonly configOf: (name: string) => string
  readonly seedOf: (name: string) => string
  readonly runOf: (name: string) => RunPaths
}

export interface RunPaths {
  readonly directory: string
  /** QEMU's working directory: its own until it runs, then the host's root's. */
  readonly work: string
  readonly log: string
  readonly lock: string
  /** What the guest was started with. */
  readonly launched: string
  /** The guest shut down by itself, and nobody has taken note. */
  readonly ended: string
  /** The guest's file systems are about to be frozen. */
  readonly frozen: string
  readonly monitor: string
  readonly secondMonitor: string
  readonly serial: string
  readonly agent: string
  /** The screen, by RFB. */
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
    monitor: at('qmp'),
    secondMonitor: at('qmp2'),
    serial: at('serial'),
    agent: at('agent'),
    screen: at('work/vnc'),
  }
}

/** The guest's disk, beside what its first boot is told, in its volume. */
export const diskOf = (volume: string): string => join(volume, 'disk.raw')
export const instanceOf = (volume: string): string => join(volume, 'instance.json')
/** What the system on the disk needs of its machine. */
export const systemOf = (volume: string): string => join(volume, 'system.json')
/** The firmware's variables, UEFI's alone. */
export const firmwareVarsOf = (volume: string): string => join(volume, 'vars.fd')
/** The state of its TPM. */
export const tpmOf = (volume: string): string => join(volume, 'tpm')
