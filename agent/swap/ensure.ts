import type { Logger } from 'pino'
import type { HostSwap } from './contract.js'
import { currentOf, otherOf } from './plan.js'
import { discard } from './steps.js'

/**
 * Takes the swap file into use that should be, where no systemd did at boot, and removes what a change left beside it.
 * To be called while no change is under way. What fails is logged: an agent without swap is better than none.
 */
export async function ensureSwap(swap: HostSwap, log: Logger): Promise<void> {
  try {
    const current = currentOf(await swap.read())
    if (!current) return
    if (current.kept && !current.active) await swap.use(current.slot)
    await discard(swap, otherOf(current.slot), new AbortController().signal)
  } catch (err) {
    log.warn({ err }, 'the swap file is not in the expected state')
  }
}
