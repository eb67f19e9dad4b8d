import { KeyedSingleFlight } from '../../shared/async/single-flight.js'
import { Semaphore } from '../../shared/async/semaphore.js'
import { inSlices } from '../../shared/async/slices.js'
import { compareBy, isSameValue, matches, type Fields, type ListQuery } from './query.js'
import { SortedList } from './sorted-list.js'

/** An item in the sorted lists of a table. It moves within a list only if a sort field of this list changes. */
export interface TableSlot<Item> {
  item: Item
}

/** The items that match a query, in its sort order. Later changes of the table also change the result. */
export interface QueryResult<Item> {
  readonly size: number
  /** Returns the items from index `from` up to, but not including, `to`. */
  slice(from: number, to: number): Item[]
}

/** A table that can only be read. */
export interface Queryable<Item, Name extends string> {
  readonly size: number
  countOf(field: Name, value: string): number
  /** Runs a query. Recent queries are answered from a cache. Other queries search in short steps between other work. */
  select(query: ListQuery<Name>): Promise<QueryResult<Item>>
}

export interface TableOptions<Item, Name extends string> {
  readonly fields: Fields<Item, Name>
  /** Order of the table. Must return 0 only for the same item. The compared values of an item must not change. */
  readonly compare: (a: Item, b: Item) => number
  /** Fields for which the table counts the items of each value. No search is needed for a value that no item has. */
  readonly counted: readonly Name[]
}

/** Maximum number of cached query results. If there are more, the least recently used one is dropped. */
export const maxCachedResults = 32

/** Maximum number of query results that are computed at the same time. It must be lower than `maxCachedResults`. */
const maxComputations = 4

/** Items by key. Caches the results of recent queries, and updates the cached results with each change of an item. */
export class Table<Item, Name extends string> implements Queryable<Item, Name> {
  readonly #slots = new Map<string, TableSlot<Item>>()
  readonly #all: SortedList<TableSlot<Item>>
  readonly #cached = new Map<string, CachedResult<Item, Name>>()
  /** Computations of query results that are running or waiting, by the query in JSON. */
  readonly #running = new KeyedSingleFlight<string, QueryResult<Item>>()
  readonly #computations = new Semaphore(maxComputations)
  readonly #counts: Map<Name, Map<string, number>>
  readonly #names: readonly Name[]

  readonly #everything: QueryResult<Item>

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

  get cachedResults(): number {
    return this.#cached.size
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
    const changed = this.#names.filter((name) => !isSameValue(fields[name](slot.item), fields[name](item)))
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
    for (const result of this.#cached.values()) result.delete(slot)
  }

  /** Changes the same fields of many items in one step. @param change function that changes the items */
  changeAll(keys: Iterable<string>, fields: readonly Name[], change: () => void): void {
    const slots = [...keys].flatMap((key) => this.#slots.get(key) ?? [])
    this.#change(slots, fields, change)
  }

  /** Number of items whose counted field has this value. */
  countOf(field: Name, value: string): number {
    return this.#counts.get(field)?.get(value) ?? 0
  }

  async select(query: ListQuery<Name>): Promise<QueryResult<Item>> {
    if (query.filters.length + query.sort.length === 0) return this.#everything
    if (query.filters.some(({ field, value }) => this.#counts.get(field)?.has(value) === false)) return none
    const needed = withoutRepeats(query)
    const key = JSON.stringify(needed)
    const result = this.#cached.get(key)
    if (!result) return this.#compute(key, needed)
    // The result becomes the last entry of the map, because the map is ordered by last use.
    this.#cached.delete(key)
    this.#cached.set(key, result)
    await result.complete(this.#all)
    return result
  }

  /** Computes the result of a query once for all concurrent callers. Only a few queries run at a time. */
  #compute(key: string, query: ListQuery<Name>): Promise<QueryResult<Item>> {
    return this.#running.run(key, () =>
      this.#computations.run(async () => {
        const result = new CachedResult(this.options, query)
        this.#cached.set(key, result)
        this.#dropUnused()
        await result.complete(this.#all)
        return result
      }),
    )
  }

  /** Drops the least recently used results, except incomplete ones, because callers wait for these. */
  #dropUnused(): void {
    for (const [key, { isComplete }] of this.#cached) {
      if (this.#cached.size <= maxCachedResults) return
      if (isComplete) this.#cached.delete(key)
    }
  }

  #add(key: string, slot: TableSlot<Item>): TableSlot<Item> {
    this.#slots.set(key, slot)
    this.#all.add(slot)
    this.#count(slot, this.options.counted, 1)
    for (const result of this.#cached.values()) result.add(slot)
    return slot
  }

  #change(slots: readonly TableSlot<Item>[], fields: readonly Name[], change: () => void): void {
    const counted = this.options.counted.filter((name) => fields.includes(name))
    const concerned = [...this.#cached.values()].filter((result) => result.dependsOn(fields))
    for (const slot of slots) {
      this.#count(slot, counted, -1)
      for (const result of concerned) result.delete(slot)
    }
    change()
    for (const slot of slots) {
      this.#count(slot, counted, 1)
      for (const result of concerned) result.add(slot)
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

const none: QueryResult<never> = { size: 0, slice: () => [] }

/** A cached query result. For each change, the table removes the item, changes it, and adds it to the result again. */
class CachedResult<Item, Name extends string> implements QueryResult<Item> {
  readonly #list: SortedList<TableSlot<Item>>
  #completion: Promise<void> | undefined
  isComplete = false

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

  complete(all: SortedList<TableSlot<Item>>): Promise<void> {
    this.#completion ??= inSlices(this.#addAll(all)).then(() => void (this.isComplete = true))
    return this.#completion
  }

  /** Adds all matching items in steps. `passed` may be removed between two steps, as `after` accepts removed items. */
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
