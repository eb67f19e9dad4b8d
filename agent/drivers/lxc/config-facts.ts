import { findDiskNumbers } from '../common/group-facts.js'
import type { Machine } from '../machine.js'
import { listLxcfsEntries, type LxcHostFacts } from './host-facts.js'
import type { LxcPaths } from './paths.js'
import type { ConfigFacts } from './plan-config.js'

/** Facts about the host that the configurations of all guests depend on. */
export interface ConfigPlace {
  readonly paths: LxcPaths
  readonly facts: LxcHostFacts
  readonly lxcfsDir: string
}

/** Collects the facts for a guest's configuration. @param name the guest's name in lxc */
export function configFacts({ paths, facts, lxcfsDir }: ConfigPlace, { volume }: Machine, name: string): ConfigFacts {
  const poolDevice = findDiskNumbers(volume)
  return {
    name,
    cgroupVersion: facts.cgroups.version,
    swapAccounting: facts.swapAccounting,
    socketAccounting: facts.socketAccounting,
    cpusets: facts.cpusets,
    ...(poolDevice === undefined ? {} : { poolDevice }),
    lxcfsDir,
    lxcfsEntries: listLxcfsEntries(lxcfsDir),
    seccompProfile: paths.seccompProfile,
    commandLine: paths.commandLine,
    hierarchies: facts.cgroups,
    addressesHook: paths.addressesHook,
    groupsHook: paths.groupsHook,
    mendHook: paths.mendHook,
    stoppedHook: paths.stoppedHook,
    marksDir: paths.marks,
    lxcPath: paths.lxcPath,
    pivotGroup: paths.pivotGroup,
    devicesDir: paths.devices,
    apparmor: facts.apparmor,
    ...(facts.mountsIdmapped ? {} : { mountPoint: paths.mountPoint }),
    openFilesMax: facts.openFilesMax,
  }
}
