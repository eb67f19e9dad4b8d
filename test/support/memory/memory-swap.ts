import type { HostSwap, SwapSlot, SwapFile } from '../../../agent/swap/contract.js'

type SwapCall = 'make' | 'use' | 'release' | 'keep' | 'remove'

/** Implements swap files in memory. They are kept when the agent ends. */
export class MemorySwap implements HostSwap {
  readonly files = new Map<SwapSlot, SwapFile>()
  /** Number of bytes in the host's swap that do not belong to the agent. */
  otherBytes = 0
  room = { totalBytes: 500 * 1024 ** 3, usedBytes: 0 }
  memory = { totalBytes: 32 * 1024 ** 3, availableBytes: 16 * 1024 ** 3 }
  /** Hooks that a test sets, by the names of calls. A hook may wait, or throw an error of the host. */
  readonly faults: Partial<Record<SwapCall, (slot: SwapSlot) => void | Promise<void>>> = {}
  readonly calls: string[] = []

  async read() {
    const files = [...this.files.values()].sort((a, b) => a.slot - b.slot)
    const active = files.filter((file) => file.active)
    const sum = (of: (file: SwapFile) => number): number => active.reduce((total, file) => total + of(file), 0)
    return {
      files,
      totalBytes: this.otherBytes + sum(({ sizeBytes }) => sizeBytes),
      usedBytes: sum(({ usedBytes }) => usedBytes),
    }
  }

  readRoom = async () => this.room
  readMemory = async () => this.memory

  async make(slot: SwapSlot, sizeBytes: number): Promise<void> {
    await this.#meet('make', slot)
    if (this.files.get(slot)?.sizeBytes === sizeBytes) return
    const path = `/nowhere/swapfile${slot === 0 ? '' : '.2'}`
    this.files.set(slot, { slot, path, sizeBytes, active: false, kept: false, usedBytes: 0 })
  }

  use(slot: SwapSlot): Promise<void> {
    return this.#change('use', slot, { active: true })
  }

  release(slot: SwapSlot): Promise<void> {
    return this.#change('release', slot, { active: false, usedBytes: 0 })
  }

  keep(slot: SwapSlot, kept: boolean): Promise<void> {
    return this.#change('keep', slot, { kept })
  }

  async remove(slot: SwapSlot): Promise<void> {
    await this.#meet('remove', slot)
    if (this.files.get(slot)?.active) throw new Error('in use')
    this.files.delete(slot)
  }

  async #change(call: SwapCall, slot: SwapSlot, change: Partial<SwapFile>): Promise<void> {
    await this.#meet(call, slot)
    const file = this.files.get(slot)
    if (file) this.files.set(slot, { ...file, ...change })
  }

  async #meet(call: SwapCall, slot: SwapSlot): Promise<void> {
    this.calls.push(`${call} ${slot}`)
    await this.faults[call]?.(slot)
  }
}
