import { BerthError, conflict } from '../../shared/errors.js'
import type { SwapAction } from '../../shared/swap-rules.js'
import type { Memory } from '../host/process/memory.js'
import type { PoolCapacity } from '../storage/pool.js'
import { planReserveBytes } from '../storage/room.js'
import type { SwapSlot, SwapFile, SwapState } from './contract.js'

export interface SwapWish {
  readonly action: SwapAction
  /** Size in bytes for `create` and `resize`. 0 for other actions. */
  readonly sizeBytes: number
}

/** The present or desired state of the agent's swap. */
export interface SwapSetting {
  readonly slot: SwapSlot
  readonly sizeBytes: number
  readonly enabled: boolean
  /** True if the file is deleted at the end of the change. */
  readonly removed?: true
}

export interface SwapChange {
  /** State before the change. Null: the agent had no swap file. */
  readonly from: SwapSetting | null
  readonly to: SwapSetting
}

/** Prefers the active file, then a file that a boot activates, then any file. Among equals, returns the largest. */
export function currentOf({ files }: Pick<SwapState, 'files'>): SwapFile | undefined {
  const rank = (file: SwapFile): number => (file.active ? 2 : 0) + (file.kept ? 1 : 0)
  return [...files].sort((a, b) => rank(b) - rank(a) || b.sizeBytes - a.sizeBytes)[0]
}

/** Plans a change. A new size needs a second file (see `SwapSlot`). @throws {BerthError} `invalid_state` */
export function planSwapChange({ action, sizeBytes }: SwapWish, state: Pick<SwapState, 'files'>): SwapChange {
  const current = currentOf(state)
  if (!current) return { from: null, to: planFirst(action, sizeBytes) }
  const { slot, active: enabled } = current
  const from = { slot, sizeBytes: current.sizeBytes, enabled }
  switch (action) {
    case 'create':
      throw conflict('invalid_state', 'a swap file already exists: resize or enable it')
    case 'enable':
    case 'disable':
      return { from, to: { ...from, enabled: action === 'enable' } }
    case 'delete':
      return { from, to: { ...from, enabled: false, removed: true } }
    case 'resize':
      return { from, to: sizeBytes === from.sizeBytes ? from : { slot: otherOf(slot), sizeBytes, enabled } }
  }
}

function planFirst(action: SwapAction, sizeBytes: number): SwapSetting {
  if (action === 'create' || action === 'resize') return { slot: 0, sizeBytes, enabled: true }
  throw conflict('invalid_state', 'no swap file exists: create one')
}

export function otherOf(slot: SwapSlot): SwapSlot {
  return slot === 0 ? 1 : 0
}

/** Fraction of the memory that must stay free for the kernel and for new demand. */
const reserveShare = 0.05
const mostReserved = 512 * 1024 ** 2

/**
 * Checks that the content of a swap file fits into memory and other swap. If it did not fit, the kernel would kill
 * processes when the file is deactivated.
 * @throws {BerthError} `memory_in_use`
 */
export function checkRelease(
  { usedBytes, otherFreeBytes }: { usedBytes: number; otherFreeBytes: number },
  { totalBytes, availableBytes }: Memory,
): void {
  const reserved = Math.min(totalBytes * reserveShare, mostReserved)
  const roomBytes = Math.max(0, availableBytes - reserved) + otherFreeBytes
  if (usedBytes <= roomBytes) return
  const message = `the swap file cannot be deactivated: it contains ${toMb(usedBytes)} MB, but memory and other swap areas have room for only ${toMb(roomBytes)} MB`
  throw new BerthError('conflict', 'memory_in_use', message)
}

/**
 * Checks that the file system has space for another swap file and a reserve for other files.
 * @throws {BerthError} `resource_exhausted` with the field `size_mb`
 */
export function checkSpace({ totalBytes, usedBytes }: PoolCapacity, sizeBytes: number): void {
  const freeBytes = Math.max(0, totalBytes - usedBytes - planReserveBytes(totalBytes))
  if (sizeBytes <= freeBytes) return
  const message = `size_mb: a new swap file can have at most ${Math.floor(freeBytes / 1024 ** 2)} MB on the host's disk at present`
  throw new BerthError('exhausted', 'resource_exhausted', message, { field: 'size_mb' })
}

function toMb(bytes: number): number {
  return Math.ceil(bytes / 1024 ** 2)
}
