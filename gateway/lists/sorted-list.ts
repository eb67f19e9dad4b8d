const maxChunk = 512

/**
 * A sorted list that stores its items in small arrays (chunks). The costs of adding, removing and slicing hardly depend
 * on its size. Source: Python's library sortedcontainers, which uses the same structure.
 */
export class SortedList<Item> implements Iterable<Item> {
  readonly #chunks: Item[][] = []
  #size = 0

  /** @param compare must return 0 only for the same item; the compared values of a listed item must not change */
  constructor(private readonly compare: (a: Item, b: Item) => number) {}

  get size(): number {
    return this.#size
  }

  /** Adds an item. @returns false if the list contained it already */
  add(item: Item): boolean {
    const [at, chunk] = this.#chunkOf(item)
    if (!chunk) this.#chunks.push([item])
    else {
      const index = this.#indexIn(chunk, item)
      if (chunk[index] === item) return false
      chunk.splice(index, 0, item)
      if (chunk.length > maxChunk) this.#chunks.splice(at + 1, 0, chunk.splice(maxChunk / 2))
    }
    this.#size++
    return true
  }

  /** Removes an item. @returns false if the list did not contain it */
  delete(item: Item): boolean {
    const [at, chunk] = this.#chunkOf(item)
    if (!chunk) return false
    const index = this.#indexIn(chunk, item)
    if (chunk[index] !== item) return false
    chunk.splice(index, 1)
    this.#size--
    if (chunk.length < maxChunk / 8) this.#merge(at)
    return true
  }

  /** Returns the items from index `from` up to, but not including, index `to`. */
  slice(from: number, to: number): Item[] {
    const found: Item[] = []
    let begin = 0
    for (const chunk of this.#chunks) {
      if (begin >= to) break
      if (begin + chunk.length > from) found.push(...chunk.slice(Math.max(0, from - begin), Math.max(0, to - begin)))
      begin += chunk.length
    }
    return found
  }

  /**
   * Returns at most `most` items that follow `item`, even if `item` was removed from the list. If `item` is undefined,
   * begins with the first item. The result is empty only at the end of the list.
   */
  after(item: Item | undefined, most: number): Item[] {
    if (item === undefined) return this.#chunks[0]?.slice(0, most) ?? []
    const [at, chunk] = this.#chunkOf(item)
    if (!chunk) return []
    const index = this.#indexIn(chunk, item)
    const begin = chunk[index] === item ? index + 1 : index
    const rest = chunk.slice(begin, begin + most)
    return rest.length > 0 ? rest : (this.#chunks[at + 1]?.slice(0, most) ?? [])
  }

  *[Symbol.iterator](): Iterator<Item> {
    for (const chunk of this.#chunks) yield* chunk
  }

  /** Finds the first chunk whose last item is the given item or follows it. Default: the last chunk. */
  #chunkOf(item: Item): [number, Item[] | undefined] {
    let [low, high] = [0, this.#chunks.length - 1]
    while (low < high) {
      const middle = (low + high) >> 1
      if (this.compare(this.#chunks[middle]!.at(-1)!, item) < 0) low = middle + 1
      else high = middle
    }
    return [low, this.#chunks[low]]
  }

  /** Returns the index of the item in a chunk, or the index at which it would be inserted. */
  #indexIn(chunk: readonly Item[], item: Item): number {
    let [low, high] = [0, chunk.length]
    while (low < high) {
      const middle = (low + high) >> 1
      if (this.compare(chunk[middle]!, item) < 0) low = middle + 1
      else high = middle
    }
    return low
  }

  /** Joins a small chunk with the next chunk, unless the result would soon have to be split again. */
  #merge(at: number): void {
    const [chunk, next] = [this.#chunks[at]!, this.#chunks[at + 1]]
    if (chunk.length > 0 && (!next || chunk.length + next.length > maxChunk / 2)) return
    this.#chunks.splice(at, next ? 2 : 1, ...(next ? [[...chunk, ...next]] : []))
  }
}
