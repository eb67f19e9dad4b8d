import type { Logger } from 'pino'
import type { HostSwap } from './contract.js'
import { currentOf, otherOf } from './plan.js'
import { discard } from './steps.js'

/**
 * Activates the swap file if systemd did not do this at boot. Removes files that an interrupted change left behind.
 * Must not be called while a change is running. Failures are only logged, because the agent also works without swap.
 */
export async function ensureSwap(swap: HostSwap, log: Logger): Promise<void> {
  try {
    const current = currentOf(await swap.read())
    if (!current) return
    if (current.kept && !current.active) await swap.use(current.slot)
    await discard(swap, otherOf(current.slot), new AbortController().signal)
  } catch (err) {
    log.warn({ err }, 'could not restore the configured state of the swap file')
  }
}
