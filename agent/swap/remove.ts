import { rmdir } from 'node:fs/promises'
import { dirname } from 'node:path'
import type { AgentConfig } from '../config.js'
import { ignoreFilled, SwapFiles } from './swap-files.js'

/** Removes all swap files that an agent with this configuration has created. Other swap files of the host stay. */
export async function removeSwap(config: Pick<AgentConfig, 'state_dir' | 'swap'>): Promise<void> {
  const swap = new SwapFiles(config)
  for (const slot of [0, 1] as const) {
    await swap.release(slot)
    await swap.keep(slot, false)
    await swap.remove(slot)
  }
  await rmdir(dirname(swap.pathOf(0))).catch(ignoreFilled) // the directory can contain files of the operator
}
