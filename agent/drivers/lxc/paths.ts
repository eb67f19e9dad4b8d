import { join } from 'node:path'

/** All host paths and names the driver uses, from the instance's directories and its name prefix. */
export interface LxcPaths {
  readonly lxcPath: string
  readonly support: string
  readonly addressesHook: string
  readonly groupsHook: string
  readonly stoppedHook: string
  readonly seccompProfile: string
  /** What guests see as the kernel's command line. */
  readonly commandLine: string
  readonly marks: string
  readonly pivotGroup: string
  /** lxc's name of a guest; command sockets and groups of all instances on a host share one space. */
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
    stoppedHook: join(support, 'stopped-hook'),
    seccompProfile: join(support, 'seccomp'),
    commandLine: join(support, 'cmdline'),
    marks: join(options.runDir, 'lxc-stopped'),
    pivotGroup: `lxc.pivot.${options.namePrefix}`,
    nameOf: (id) => `${options.namePrefix}-${id}`,
    directoryOf: (name) => join(lxcPath, name),
    configOf: (name) => join(lxcPath, name, 'config'),
    logOf: (name) => join(lxcPath, name, 'log'),
  }
}
