import type { Memory } from '../host/process/memory.js'
import type { PoolCapacity } from '../storage/pool.js'

/** The swap file has one of two names: an active one cannot be renamed, and its successor is made beside it. */
export type SwapSlot = 0 | 1

export interface SwapFile {
  readonly slot: SwapSlot
  readonly path: string
  /** What it was made with. */
  readonly sizeBytes: number
  /** The kernel uses it. */
  readonly active: boolean
  /** In use after a boot, too. */
  readonly kept: boolean
  readonly usedBytes: number
}

export interface SwapState {
  /** The agent's own, at most two. */
  readonly files: readonly SwapFile[]
  /** Of all swap that the kernel uses, others' too. */
  readonly totalBytes: number
  readonly usedBytes: number
}

/** The host's swap, as far as it is the agent's. Every method may be repeated. */
export interface HostSwap {
  read(): Promise<SwapState>
  /** Of the file system that swap files are made on. */
  readRoom(): Promise<PoolCapacity>
  readMemory(): Promise<Memory>
  /**
   * Makes the file, whole or not at all; one of that size stays. Another there is removed, and must not be in use.
   * @throws {BerthError} `storage_full`
   */
  make(slot: SwapSlot, sizeBytes: number, signal: AbortSignal): Promise<void>
  /** @throws {BerthError} `swap_unsupported` where the file system or the host takes no swap file */
  use(slot: SwapSlot): Promise<void>
  release(slot: SwapSlot, signal: AbortSignal): Promise<void>
  /** Whether a boot takes it into use. */
  keep(slot: SwapSlot, kept: boolean): Promise<void>
  /** With what was begun of it. It must not be in use. */
  remove(slot: SwapSlot): Promise<void>
}
