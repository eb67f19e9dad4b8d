import { readProcessors } from '../common/processors.js'
import type { ObservedGuest } from '../contract.js'
import { isPausedByMove } from './continue-guest.js'
import type { PowerContext } from './power.js'

type Context = Pick<PowerContext, 'cgroups' | 'configs' | 'machines' | 'namePrefix' | 'paths' | 'runtime'>

/** Lists the guests that have a process. Also starts to watch these guests, so that their end is reported. */
export function observeMachines({ configs, machines, namePrefix, paths, runtime }: Context): ObservedGuest[] {
  return runtime.listNames(namePrefix).flatMap((name): ObservedGuest[] => {
    const uuid = configs.findUuid(name)
    const { state, process } = runtime.read(name)
    if (uuid === undefined || !process || state === 'stopped') return []
    if (state === 'starting') return [{ uuid, state }]
    machines.track(name, uuid, process)
    // A guest counts as stopped while its move pauses it. If this host owns the guest, the reconciler continues it.
    if (isPausedByMove(paths.runOf(name))) return []
    const { pid, startTime } = process
    return [{ uuid, state: machines.hasShutDown(name) ? 'stopping' : 'running', pid, startTime }]
  })
}

/** Returns the host's processors that each guest is allowed to use, by the guest's uuid. */
export function readMachineProcessors({
  cgroups,
  configs,
  namePrefix,
  paths,
  runtime,
}: Context): ReadonlyMap<string, readonly number[]> {
  const hierarchy = cgroups.controllers.get('cpuset')
  if (hierarchy === undefined) return new Map()
  const places = runtime
    .listNames(namePrefix)
    .map((name) => ({ uuid: configs.findUuid(name), path: `${hierarchy}/${paths.groupOf(name)}` }))
  return readProcessors(places)
}
