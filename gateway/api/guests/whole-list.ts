import { SingleFlight } from '../../../shared/async/single-flight.js'
import type { FleetView, GuestView } from '../../fleet/contract.js'
import { isDeleted } from '../../fleet/guest-status.js'
import type { GuestBlock } from '../../fleet/lists/guest-blocks.js'
import { listOfPieces, makePiece, type Piece } from '../../http/json-list.js'
import type { Answer } from '../../http/route.js'
import { inSlices } from '../../../shared/async/slices.js'

interface RenderedBlock {
  readonly version: string
  readonly rows: number
  readonly piece: Piece
}

/** Number of blocks of guests (see `GuestBlock`) that may be rendered in one turn of the event loop. */
const fewBlocks = 2
const mostRounds = 20

/** The rendered list of all guests, in blocks. A change of a guest renders only the block of this guest again. */
export class WholeList {
  readonly #made = new WeakMap<GuestBlock, RenderedBlock>()
  readonly #making = new SingleFlight()
  #version: string | undefined
  #answer: Answer<never> = {}

  constructor(
    private readonly view: FleetView,
    private readonly jsonOf: (guest: GuestView) => string,
    /** Version of row data that is not part of the guest, such as owners. If it changes, all rows are made again. */
    private readonly extraVersion: () => number = () => 0,
  ) {}

  async read(): Promise<Answer<never>> {
    if (this.#version === this.#versionOf(this.view.guestsVersion)) return this.#answer
    // Concurrent readers share one rendering. `#assemble` then renders blocks that changed during the rendering.
    await this.#making.run(() => inSlices(this.#makeStale()))
    return this.#assemble()
  }

  /** Renders changed blocks, including blocks that change during this call, until only few are left for `#assemble`. */
  *#makeStale(): Generator<void, void> {
    for (let round = 0; round < mostRounds; round++) {
      const stale = this.view.guestBlocks.filter(
        (block) => this.#made.get(block)?.version !== this.#versionOf(block.version),
      )
      if (stale.length <= fewBlocks) return
      for (const block of stale) {
        this.#make(block)
        yield
      }
    }
  }

  #assemble(): Answer<never> {
    if (this.#version === this.#versionOf(this.view.guestsVersion)) return this.#answer
    const made = this.view.guestBlocks.map((block) => this.#make(block))
    const total = made.reduce((sum, { rows }) => sum + rows, 0)
    this.#version = this.#versionOf(this.view.guestsVersion)
    this.#answer = listOfPieces(
      made.map(({ piece }) => piece),
      total,
    )
    return this.#answer
  }

  #make(block: GuestBlock): RenderedBlock {
    const earlier = this.#made.get(block)
    const version = this.#versionOf(block.version)
    if (earlier?.version === version) return earlier
    const guests = block.guests().filter(({ guest }) => !isDeleted(guest))
    const piece = makePiece(guests.map((guest) => this.jsonOf(guest)))
    const made = { version, rows: guests.length, piece }
    this.#made.set(block, made)
    return made
  }

  #versionOf(version: number): string {
    return `${version}.${this.extraVersion()}`
  }
}
