import { BerthError } from '../../../shared/errors.js'
import { resizeGroups } from '../common/group-limits.js'
import type { GuestNames } from '../common/guest-names.js'
import { limitsOf } from '../common/plan-limits.js'
import type { ResizeResult } from '../contract.js'
import type { Machine } from '../machine.js'
import { boundGroups } from './bound-groups.js'
import { configFacts, type ConfigPlace } from './config-facts.js'
import type { LxcConfigStore } from './config-store.js'
import { planConfig } from './plan-config.js'
import type { LxcRuntimeReader } from './runtime.js'

export interface LxcResizeContext {
  readonly names: GuestNames
  readonly runtime: LxcRuntimeReader
  readonly configs: LxcConfigStore
  readonly place: ConfigPlace
}

/** Applies a guest's limits to its configuration and, if it runs, to its cgroups. */
export async function resizeContainer(
  { names, runtime, configs, place }: LxcResizeContext,
  machine: Machine,
): Promise<ResizeResult> {
  const { cgroups } = place.facts
  const name = names.nameOf(machine)
  const facts = configFacts(place, machine, name)
  const lines = planConfig(machine, facts) // all values must be checked before any file is written
  const { init } = runtime.read(name)
  try {
    const bounded = init ? boundGroups(cgroups, name) : false
    const resized = init ? resizeGroups(cgroups, `lxc.payload.${name}`, { limits: limitsOf(machine), facts }) : false
    const rewritten = await configs.ensure(name, machine.uuid, lines)
    return { outcome: init ? 'applied' : 'at_next_start', changed: rewritten || resized || bounded }
  } catch (error) {
    if (error instanceof BerthError && error.code === 'memory_in_use') return { outcome: 'refused', error }
    throw error
  }
}
