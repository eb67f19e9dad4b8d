/** Value of a field. If the value is a list, a filter matches if any value in the list matches. */
type FieldValue = string | number | readonly string[]

/** Functions that read the fields of an item, for filters and sorting. */
export type Fields<Item, Name extends string> = Readonly<Record<Name, (item: Item) => FieldValue>>

export interface ListQuery<Name extends string> {
  /** Filters that must all match. A filter matches if the field, converted to text, equals `value`. */
  readonly filters: readonly { readonly field: Name; readonly value: string }[]
  /** Fields to sort by, the most important first. Items with equal fields keep their previous order. */
  readonly sort: readonly { readonly field: Name; readonly descending: boolean }[]
}

export function matches<Item, Name extends string>(
  fields: Fields<Item, Name>,
  { filters }: ListQuery<Name>,
  item: Item,
): boolean {
  return filters.every(({ field, value }) => {
    const found = fields[field](item)
    return typeof found === 'object' ? found.includes(value) : String(found) === value
  })
}

export function isSameValue(a: FieldValue, b: FieldValue): boolean {
  if (typeof a !== 'object' || typeof b !== 'object') return a === b
  return a.length === b.length && a.every((value, at) => value === b[at])
}

/** Compares two items by the fields of `sort`. @returns 0 if all these fields are equal */
export function compareBy<Item, Name extends string>(
  fields: Fields<Item, Name>,
  { sort }: ListQuery<Name>,
): (a: Item, b: Item) => number {
  const keys = sort.map(({ field, descending }) => ({ read: fields[field], sign: descending ? -1 : 1 }))
  return (a, b) => {
    for (const { read, sign } of keys) {
      const order = compareValues(read(a), read(b))
      if (order !== 0) return order * sign
    }
    return 0
  }
}

/** Returns the items that match a query, in its sort order. Only suitable for short lists. */
export function selectFrom<Item, Name extends string>(
  items: readonly Item[],
  fields: Fields<Item, Name>,
  query: ListQuery<Name>,
): Item[] {
  const found = items.filter((item) => matches(fields, query, item))
  return query.sort.length === 0 ? found : found.sort(compareBy(fields, query))
}

function compareValues(a: FieldValue, b: FieldValue): number {
  if (typeof a === 'number' && typeof b === 'number') return a - b
  const [x, y] = [String(a), String(b)]
  return x < y ? -1 : x > y ? 1 : 0
}
