import type { GuestView } from '../reported.js'

const idsPerBlock = 256

/** A block contains the guests with ids in one range of 256. Data derived from a block is valid for one `version`. */
export interface GuestBlock {
  readonly version: number
  /** Guests of the block, ordered by id. */
  guests(): GuestView[]
}

interface Block extends GuestBlock {
  version: number
  readonly byId: Map<number, GuestView>
}

/** All guests, divided into blocks. After a change of a guest, only data derived from the guest's block is outdated. */
export class GuestBlocks {
  readonly #blocks = new Map<number, Block>()
  #inOrder: readonly Block[] | undefined

  /** Adds a guest or replaces the guest with the same id. */
  set(guest: GuestView): void {
    const number = numberOf(guest.guest.id)
    const block = this.#blocks.get(number) ?? this.#add(number)
    block.byId.set(guest.guest.id, guest)
    block.version++
  }

  delete(id: number): void {
    const number = numberOf(id)
    const block = this.#blocks.get(number)
    if (!block?.byId.delete(id)) return
    block.version++
    if (block.byId.size > 0) return
    this.#blocks.delete(number)
    this.#inOrder = undefined
  }

  /** Marks the guest's block as changed. Call this after a change of host data that lists show for the guest. */
  touch(id: number): void {
    const block = this.#blocks.get(numberOf(id))
    if (block) block.version++
  }

  inOrder(): readonly GuestBlock[] {
    this.#inOrder ??= [...this.#blocks].sort(([a], [b]) => a - b).map(([, block]) => block)
    return this.#inOrder
  }

  #add(number: number): Block {
    const byId = new Map<number, GuestView>()
    const block = {
      version: 0,
      byId,
      guests: () => [...byId.values()].sort((a, b) => a.guest.id - b.guest.id),
    }
    this.#blocks.set(number, block)
    this.#inOrder = undefined
    return block
  }
}

function numberOf(id: number): number {
  return Math.floor(id / idsPerBlock)
}
