/** A FIFO queue with amortized constant time per call. The `shift` of an array would move all following items. */
export class Queue<Item> {
  #items: Item[] = []
  #head = 0

  get size(): number {
    return this.#items.length - this.#head
  }

  push(item: Item): void {
    this.#items.push(item)
  }

  shift(): Item | undefined {
    if (this.size === 0) return undefined
    const item = this.#items[this.#head++]
    if (this.#head * 2 > this.#items.length) {
      this.#items = this.#items.slice(this.#head)
      this.#head = 0
    }
    return item
  }

  *[Symbol.iterator](): Generator<Item> {
    for (let at = this.#head; at < this.#items.length; at++) yield this.#items[at] as Item
  }
}
