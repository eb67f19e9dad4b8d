import { KeyedSingleFlight } from '../../shared/async/single-flight.js'
import { Semaphore } from '../../shared/async/semaphore.js'
import { inSlices } from '../../shared/async/slices.js'
import { compareBy, matches, type Fields, type ListQuery } from './query.js'
import { SortedList } from './sorted-list.js'

/** The place of an item in a table's sort orders. A new version of the item moves only if sorted fields changed. */
export interface TableSlot<Item> {
  item: Item
}

/** The items that a query selects, in its order. The selection follows all changes of the table. */
export interface Selection<Item> {
  readonly size: number
  /** Returns the items from index `from` up to, but not including, `to`. */
  slice(from: number, to: number): Item[]
}

/** A table that can only be read. */
export interface Selectable<Item, Name extends string> {
  readonly size: number
  /** Selects items. Recent queries are answered immediately, others by a search in steps that lets other work run. */
  select(query: ListQuery<Name>): Promise<Selection<Item>>
}

export interface TableOptions<Item, Name extends string> {
  readonly fields: Fields<Item, Name>
  /** Order of the table; 0 only for the same item. The compared values of an item in the table must not change. */
  readonly compare: (a: Item, b: Item) => number
  /** Fields for which the table counts items by value. A filter for a value that no item has then needs no search. */
  readonly counted: readonly Name[]
}

/** Maximum number of selections that are kept up to date. Beyond it, the least recently used one is dropped. */
export const maxSelections = 32

/** Maximum number of selections that are filled at once. Further selections wait. Lower than `maxSelections`. */
const maxFillings = 4

/** Items by key, with the sort orders and filters of recent queries. */
export class Table<Item, Name extends string> implements Selectable<Item, Name> {
  readonly #slots = new Map<string, TableSlot<Item>>()
  readonly #all: SortedList<TableSlot<Item>>
  readonly #selections = new Map<string, MaintainedSelection<Item, Name>>()
  /** Selections (results of queries) that are being filled, or wait for that, by the query in JSON. */
  readonly #making = new KeyedSingleFlight<string, Selection<Item>>()
  readonly #fillings = new Semaphore(maxFillings)
  readonly #counts: Map<Name, Map<string, number>>
  readonly #names: readonly Name[]

  readonly #everything: Selection<Item>

  constructor(private readonly options: TableOptions<Item, Name>) {
    const all = new SortedList<TableSlot<Item>>((a, b) => options.compare(a.item, b.item))
    this.#all = all
    this.#everything = {
      get size() {
        return all.size
      },
      slice: (from, to) => all.slice(from, to).map(({ item }) => item),
    }
    this.#counts = new Map(options.counted.map((name) => [name, new Map<string, number>()]))
    this.#names = Object.keys(options.fields) as Name[]
  }

  get size(): number {
    return this.#all.size
  }

  /** Number of stored selections. */
  get keptSelections(): number {
    return this.#selections.size
  }

  find(key: string): Item | undefined {
    return this.#slots.get(key)?.item
  }

  /** Yields all items in the order of the table. */
  *values(): Iterable<Item> {
    for (const { item } of this.#all) yield item
  }

  /** Adds an item, or replaces the item with this key. */
  set(key: string, item: Item): TableSlot<Item> {
    const slot = this.#slots.get(key)
    if (!slot) return this.#add(key, { item })
    const { fields } = this.options
    const changed = this.#names.filter((name) => fields[name](slot.item) !== fields[name](item))
    if (changed.length === 0) slot.item = item
    else this.#change([slot], changed, () => (slot.item = item))
    return slot
  }

  delete(key: string): void {
    const slot = this.#slots.get(key)
    if (!slot) return
    this.#slots.delete(key)
    this.#all.delete(slot)
    this.#count(slot, this.options.counted, -1)
    for (const selection of this.#selections.values()) selection.delete(slot)
  }

  /** Changes fields of many items at once. @param change function that changes the items */
  changeAll(keys: Iterable<string>, fields: readonly Name[], change: () => void): void {
    const slots = [...keys].flatMap((key) => this.#slots.get(key) ?? [])
    this.#change(slots, fields, change)
  }

  async select(query: ListQuery<Name>): Promise<Selection<Item>> {
    if (query.filters.length + query.sort.length === 0) return this.#everything
    if (query.filters.some(({ field, value }) => this.#counts.get(field)?.has(value) === false)) return none
    const asked = withoutRepeats(query)
    const key = JSON.stringify(asked)
    const selection = this.#selections.get(key)
    if (!selection) return this.#make(key, asked)
    // The selection is moved to the end, because the map is ordered by last use.
    this.#selections.delete(key)
    this.#selections.set(key, selection)
    await selection.fill(this.#all)
    return selection
  }

  /** Computes the result of a query, shared by concurrent callers with this query. Only a few queries run at a time. */
  #make(key: string, query: ListQuery<Name>): Promise<Selection<Item>> {
    return this.#making.run(key, () =>
      this.#fillings.run(async () => {
        const selection = new MaintainedSelection(this.options, query)
        this.#selections.set(key, selection)
        this.#dropUnused()
        await selection.fill(this.#all)
        return selection
      }),
    )
  }

  /** Drops the least recently used selections, but none that is being filled, because callers wait for it. */
  #dropUnused(): void {
    for (const [key, { isFilled }] of this.#selections) {
      if (this.#selections.size <= maxSelections) return
      if (isFilled) this.#selections.delete(key)
    }
  }

  #add(key: string, slot: TableSlot<Item>): TableSlot<Item> {
    this.#slots.set(key, slot)
    this.#all.add(slot)
    this.#count(slot, this.options.counted, 1)
    for (const selection of this.#selections.values()) selection.add(slot)
    return slot
  }

  #change(slots: readonly TableSlot<Item>[], fields: readonly Name[], change: () => void): void {
    const counted = this.options.counted.filter((name) => fields.includes(name))
    const concerned = [...this.#selections.values()].filter((selection) => selection.dependsOn(fields))
    for (const slot of slots) {
      this.#count(slot, counted, -1)
      for (const selection of concerned) selection.delete(slot)
    }
    change()
    for (const slot of slots) {
      this.#count(slot, counted, 1)
      for (const selection of concerned) selection.add(slot)
    }
  }

  #count({ item }: TableSlot<Item>, names: readonly Name[], by: 1 | -1): void {
    for (const name of names) {
      const counts = this.#counts.get(name)!
      const value = String(this.options.fields[name](item))
      const count = (counts.get(value) ?? 0) + by
      if (count === 0) counts.delete(value)
      else counts.set(value, count)
    }
  }
}

/** Removes repeated sort fields, which have no effect. */
function withoutRepeats<Name extends string>({ filters, sort }: ListQuery<Name>): ListQuery<Name> {
  const isFirst = (name: Name, at: number) => sort.findIndex(({ field }) => field === name) === at
  return { filters, sort: sort.filter(({ field }, at) => isFirst(field, at)) }
}

const slotsPerStep = 64

const none: Selection<never> = { size: 0, slice: () => [] }

/** Result of a query, kept up to date: the table removes an item from it, changes the item, and adds it again. */
class MaintainedSelection<Item, Name extends string> implements Selection<Item> {
  readonly #list: SortedList<TableSlot<Item>>
  #filling: Promise<void> | undefined
  isFilled = false

  constructor(
    private readonly options: TableOptions<Item, Name>,
    private readonly query: ListQuery<Name>,
  ) {
    const compare = compareBy(options.fields, query)
    this.#list = new SortedList((a, b) => compare(a.item, b.item) || options.compare(a.item, b.item))
  }

  get size(): number {
    return this.#list.size
  }

  slice(from: number, to: number): Item[] {
    return this.#list.slice(from, to).map(({ item }) => item)
  }

  dependsOn(fields: readonly Name[]): boolean {
    const { filters, sort } = this.query
    return filters.some(({ field }) => fields.includes(field)) || sort.some(({ field }) => fields.includes(field))
  }

  add(slot: TableSlot<Item>): void {
    if (matches(this.options.fields, this.query, slot.item)) this.#list.add(slot)
  }

  delete(slot: TableSlot<Item>): void {
    this.#list.delete(slot)
  }

  fill(all: SortedList<TableSlot<Item>>): Promise<void> {
    this.#filling ??= inSlices(this.#addAll(all)).then(() => void (this.isFilled = true))
    return this.#filling
  }

  /** Adds all items in steps. Items may be removed between two steps, even the last item of the previous step. */
  *#addAll(all: SortedList<TableSlot<Item>>): Generator<void, void> {
    let passed: TableSlot<Item> | undefined
    for (;;) {
      const next = all.after(passed, slotsPerStep)
      if (next.length === 0) return
      for (const slot of next) this.add(slot)
      passed = next.at(-1)
      yield
    }
  }
}
