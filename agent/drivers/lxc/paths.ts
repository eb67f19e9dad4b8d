import { join } from 'node:path'

/** All host paths and names that the driver uses, derived from the agent's directories and name prefix. */
export interface LxcPaths {
  readonly lxcPath: string
  readonly support: string
  readonly addressesHook: string
  readonly groupsHook: string
  readonly mendHook: string
  readonly stoppedHook: string
  readonly seccompProfile: string
  /** File that guests see as /proc/cmdline. */
  readonly commandLine: string
  /** Directory at which start-guest.pl mounts a guest's volume, in a separate mount namespace. */
  readonly mountPoint: string
  /** Directory with nodes of the host's devices that guests are allowed to use. */
  readonly devices: string
  readonly marks: string
  readonly pivotGroup: string
  /** Returns a guest's name in lxc. It includes the agent's prefix, because agents on one host must not share names. */
  readonly nameOf: (id: number) => string
  readonly directoryOf: (name: string) => string
  readonly configOf: (name: string) => string
  readonly logOf: (name: string) => string
}

export function lxcPaths(options: { stateDir: string; runDir: string; namePrefix: string }): LxcPaths {
  const lxcPath = join(options.stateDir, 'lxc')
  const support = join(options.stateDir, 'lxc-support')
  return {
    lxcPath,
    support,
    addressesHook: join(support, 'addresses-hook'),
    groupsHook: join(support, 'groups-hook'),
    mendHook: join(support, 'mend-hook'),
    stoppedHook: join(support, 'stopped-hook'),
    seccompProfile: join(support, 'seccomp'),
    commandLine: join(support, 'cmdline'),
    mountPoint: join(support, 'volume'),
    devices: join(support, 'devices'),
    marks: join(options.runDir, 'lxc-stopped'),
    pivotGroup: `lxc.pivot.${options.namePrefix}`,
    nameOf: (id) => `${options.namePrefix}-${id}`,
    directoryOf: (name) => join(lxcPath, name),
    configOf: (name) => join(lxcPath, name, 'config'),
    logOf: (name) => join(lxcPath, name, 'log'),
  }
}
