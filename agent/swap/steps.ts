import type { Step } from '../operations/types.js'
import type { HostSwap, SwapSlot } from './contract.js'
import { checkRelease, otherOf, type SwapChange, type SwapSetting } from './plan.js'

/** Step of a change of the swap file. `input` is null only for a refused change, whose steps never run. */
type SwapStep = Step<SwapChange | null>

interface Change extends SwapChange {
  /** The swap file that the change replaces or removes. Undefined if the change only creates a file. */
  readonly left: SwapSetting | undefined
  /** The file to create. Undefined if the change creates no file. */
  readonly made: SwapSetting | undefined
}

function changeOf({ input }: { input: SwapChange | null }): Change {
  if (!input) throw new Error('the database of the agent contains no plan for the change of the swap file')
  const { from, to } = input
  const isMoved = from?.slot !== to.slot
  return { from, to, left: isMoved && from ? from : undefined, made: isMoved ? to : undefined }
}

/**
 * Returns the steps of a change. The new file is created and activated before the old file is deactivated. The old file
 * exists until the step `clean`, so that an undo can use it.
 */
export function swapSteps(swap: HostSwap): SwapStep[] {
  return [makeStep(swap), useStep(swap), keepStep(swap), releaseStep(swap), cleanStep(swap)]
}

function makeStep(swap: HostSwap): SwapStep {
  return {
    name: 'make',
    weight: 3,
    run: async (step) => {
      const { made } = changeOf(step)
      if (!made) return
      if (!step.repeated) await discard(swap, made.slot, step.signal) // removes a file that an earlier change has left
      await swap.make(made.slot, made.sizeBytes, step.signal)
    },
    undo: async (step) => {
      const { made } = changeOf(step)
      if (made) await discard(swap, made.slot, step.signal)
    },
  }
}

function useStep(swap: HostSwap): SwapStep {
  return {
    name: 'use',
    run: async (step) => {
      const { to } = changeOf(step)
      if (to.enabled) await swap.use(to.slot)
    },
    undo: async (step) => {
      const { from, to } = changeOf(step)
      if (from?.slot !== to.slot || !from.enabled) await release(swap, to.slot, step.signal)
    },
  }
}

/** Makes each boot of the host activate the new file. The old file is also activated, until its unit is removed. */
function keepStep(swap: HostSwap): SwapStep {
  return {
    name: 'keep',
    run: async (step) => {
      const { to } = changeOf(step)
      if (to.enabled) await swap.keep(to.slot, true)
    },
    undo: async (step) => {
      const { from, to } = changeOf(step)
      await swap.keep(to.slot, from?.slot === to.slot && from.enabled)
    },
  }
}

function releaseStep(swap: HostSwap): SwapStep {
  return {
    name: 'release',
    weight: 3,
    run: async (step) => {
      const { to, left } = changeOf(step)
      if (left) await release(swap, left.slot, step.signal)
      if (!to.enabled) await release(swap, to.slot, step.signal)
    },
    undo: async (step) => {
      const { from } = changeOf(step)
      if (!from?.enabled) return
      await swap.use(from.slot)
      await swap.keep(from.slot, true)
    },
  }
}

function cleanStep(swap: HostSwap): SwapStep {
  return {
    name: 'clean',
    run: async (step) => {
      const { to, left } = changeOf(step)
      if (!to.enabled) await swap.keep(to.slot, false)
      if (left) await discard(swap, left.slot, step.signal)
      if (to.removed) for (const slot of [to.slot, otherOf(to.slot)]) await discard(swap, slot, step.signal)
    },
    undo: async (step) => {
      const { from } = changeOf(step)
      if (from) await swap.make(from.slot, from.sizeBytes, step.signal) // `run` may have deleted the old file
    },
  }
}

/** Deactivates and deletes a file and its unit. @throws {BerthError} `memory_in_use` */
export async function discard(swap: HostSwap, slot: SwapSlot, signal: AbortSignal): Promise<void> {
  await release(swap, slot, signal)
  await swap.keep(slot, false)
  await swap.remove(slot)
}

/** Deactivates a file. @throws {BerthError} `memory_in_use` */
async function release(swap: HostSwap, slot: SwapSlot, signal: AbortSignal): Promise<void> {
  const { files, totalBytes, usedBytes: usedInAll } = await swap.read()
  const file = files.find((one) => one.slot === slot)
  if (!file?.active) return
  const { usedBytes, sizeBytes } = file
  const otherFreeBytes = Math.max(0, totalBytes - sizeBytes - (usedInAll - usedBytes))
  checkRelease({ usedBytes, otherFreeBytes }, await swap.readMemory())
  await swap.release(slot, signal)
}
