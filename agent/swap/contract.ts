import type { Memory } from '../host/process/memory.js'
import type { PoolCapacity } from '../storage/pool.js'

/** The swap file has one of two names: an active file cannot be renamed, so its successor is created next to it. */
export type SwapSlot = 0 | 1

export interface SwapFile {
  readonly slot: SwapSlot
  readonly path: string
  /** Size that it was created with. */
  readonly sizeBytes: number
  /** True if the kernel uses it. */
  readonly active: boolean
  /** True if it is used after a boot, too. */
  readonly kept: boolean
  readonly usedBytes: number
}

export interface SwapState {
  /** The agent's own files, at most two. */
  readonly files: readonly SwapFile[]
  /** Size and usage of all swap that the kernel uses, including other programs' swap. */
  readonly totalBytes: number
  readonly usedBytes: number
}

/** The agent's part of the host's swap. Every method is idempotent. */
export interface HostSwap {
  read(): Promise<SwapState>
  /** Capacity of the file system that contains swap files. */
  readRoom(): Promise<PoolCapacity>
  readMemory(): Promise<Memory>
  /**
   * Creates the file completely or not at all. A file of that size stays. A file of another size is removed, and must
   * not be in use.
   * @throws {BerthError} `storage_full`
   */
  make(slot: SwapSlot, sizeBytes: number, signal: AbortSignal): Promise<void>
  /**
   * Activates the file. @throws {BerthError} `swap_unsupported` if the file system or the host does not support swap
   * files
   */
  use(slot: SwapSlot): Promise<void>
  release(slot: SwapSlot, signal: AbortSignal): Promise<void>
  /** Sets whether a boot activates the file. */
  keep(slot: SwapSlot, kept: boolean): Promise<void>
  /** Removes the file and leftovers of its creation. It must not be in use. */
  remove(slot: SwapSlot): Promise<void>
}
