import { readProcessors } from '../common/processors.js'
import type { ObservedGuest } from '../contract.js'
import type { LxcPowerContext } from './power.js'

type Context = Pick<LxcPowerContext, 'configs' | 'events' | 'namePrefix' | 'runtime'>

/** Lists the guests that have a process. Also starts to watch these guests, so that their end is reported. */
export function observeContainers({ configs, events, namePrefix, runtime }: Context): ObservedGuest[] {
  return runtime.listNames(namePrefix).flatMap((name): ObservedGuest[] => {
    const uuid = configs.findUuid(name)
    const now = runtime.read(name)
    if (uuid === undefined || now.state === 'stopped') return []
    events.track(name, uuid, now)
    const { state, init } = now
    return [init ? { uuid, state, pid: init.pid, startTime: init.startTime } : { uuid, state }]
  })
}

/** Returns the host's processors that each guest is allowed to use, by the guest's uuid. */
export function readContainerProcessors({
  configs,
  namePrefix,
  runtime,
}: Context): ReadonlyMap<string, readonly number[]> {
  const hierarchy = runtime.cgroups.controllers.get('cpuset')
  if (hierarchy === undefined) return new Map()
  const places = runtime
    .listNames(namePrefix)
    .map((name) => ({ uuid: configs.findUuid(name), path: `${hierarchy}/lxc.payload.${name}` }))
  return readProcessors(places)
}
