import { allEnded } from '../../../shared/all-ended.js'
import type { LxcConfigStore } from './config-store.js'
import { thawContainer } from './freeze.js'
import { stopGuest, type LxcStopContext } from './stop.js'

export interface StopAllContext extends LxcStopContext {
  readonly configs: LxcConfigStore
  readonly namePrefix: string
  /** Removes the mark file of an ended guest. Otherwise the agent would report that the guest ended by itself. */
  readonly clearMark: (name: string) => void
}

/**
 * Shuts down all guests of this agent at the same time, including guests without a configuration file. Kills a guest
 * that takes longer than `timeoutMs`.
 * @throws the first error, after all guests were handled
 */
export async function stopAll(context: StopAllContext, timeoutMs: number): Promise<void> {
  const { configs, namePrefix, runtime } = context
  const { signal } = new AbortController()
  const stop = async (name: string): Promise<void> => {
    thawContainer(runtime.cgroups, name) // a frozen guest would not end even when killed
    const device = configs.findDevice(name) ?? name.replace('-', '')
    await stopGuest(context, { name, device }, { timeoutMs, signal })
    context.clearMark(name)
  }
  await allEnded(runtime.listNames(namePrefix).map(stop))
}
