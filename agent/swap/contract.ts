import type { Memory } from '../host/process/memory.js'
import type { PoolCapacity } from '../storage/pool.js'

/** Number in the name of a swap file. There are two numbers, because a new file is created next to the active one. */
export type SwapSlot = 0 | 1

export interface SwapFile {
  readonly slot: SwapSlot
  readonly path: string
  /** Size in bytes with which the file was created. */
  readonly sizeBytes: number
  /** True if the kernel uses the file. */
  readonly active: boolean
  /** True if the host activates the file at boot. */
  readonly kept: boolean
  readonly usedBytes: number
}

export interface SwapState {
  /** The agent's own swap files, at most two. */
  readonly files: readonly SwapFile[]
  /** Total bytes of all swap that the kernel uses, including swap that the agent did not create. */
  readonly totalBytes: number
  readonly usedBytes: number
}

/** The swap files of the agent on the host. Every method is idempotent. */
export interface HostSwap {
  read(): Promise<SwapState>
  /** Reads the capacity of the file system for swap files. */
  readRoom(): Promise<PoolCapacity>
  readMemory(): Promise<Memory>
  /**
   * Creates a file, unless it exists with this size. Replaces a file of another size, which must not be in use. After a
   * failure, no file exists.
   * @throws {BerthError} `storage_full`
   */
  make(slot: SwapSlot, sizeBytes: number, signal: AbortSignal): Promise<void>
  /**
   * Activates a file. @throws {BerthError} `swap_unsupported` if the file system or the host does not support swap
   * files
   */
  use(slot: SwapSlot): Promise<void>
  release(slot: SwapSlot, signal: AbortSignal): Promise<void>
  /** Sets whether the host activates the file at boot. */
  keep(slot: SwapSlot, kept: boolean): Promise<void>
  /** Removes a file, even an incomplete one. The file must not be in use. */
  remove(slot: SwapSlot): Promise<void>
}
