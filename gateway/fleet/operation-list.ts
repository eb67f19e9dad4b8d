import type { OperationView } from './contract.js'

/** Operations of all hosts, kept in order, so that a list costs no sorting. */
export class OperationList {
  readonly #byId = new Map<string, OperationView>()
  /** Oldest first: new ones come at the end. */
  readonly #ordered: OperationView[] = []
  #newestFirst: OperationView[] | undefined

  find(id: string): OperationView | undefined {
    return this.#byId.get(id)
  }

  newestFirst(): OperationView[] {
    this.#newestFirst ??= this.#ordered.toReversed()
    return this.#newestFirst
  }

  set(view: OperationView): void {
    const before = this.#byId.get(view.operation.id)
    this.#byId.set(view.operation.id, view)
    this.#newestFirst = undefined
    if (before && before.operation.createdAtMs === view.operation.createdAtMs)
      this.#ordered[this.#position(before)] = view
    else {
      if (before) this.#ordered.splice(this.#position(before), 1)
      this.#ordered.splice(this.#position(view), 0, view)
    }
  }

  delete(id: string): void {
    const before = this.#byId.get(id)
    if (!before) return
    this.#byId.delete(id)
    this.#ordered.splice(this.#position(before), 1)
    this.#newestFirst = undefined
  }

  /** Where a view with this time and id is or belongs. */
  #position(view: OperationView): number {
    let [low, high] = [0, this.#ordered.length]
    // Nearly always the last.
    if (high > 0 && compare(this.#ordered[high - 1]!, view) < 0) return high
    while (low < high) {
      const middle = (low + high) >> 1
      if (compare(this.#ordered[middle]!, view) < 0) low = middle + 1
      else high = middle
    }
    return low
  }
}

function compare(a: OperationView, b: OperationView): number {
  const age = a.operation.createdAtMs - b.operation.createdAtMs
  return age || (a.operation.id < b.operation.id ? -1 : a.operation.id > b.operation.id ? 1 : 0)
}
