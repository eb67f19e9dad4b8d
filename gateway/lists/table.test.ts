import { expect } from 'chai'
import fc from 'fast-check'
import { selectFrom, type ListQuery } from './query.js'
import { SortedList } from './sorted-list.js'
import { maxCachedResults, Table } from './table.js'

interface Item {
  readonly key: string
  readonly id: number
  readonly color: string
  readonly size: number
}

const fields = {
  id: ({ id }: Item) => id,
  color: ({ color }: Item) => color,
  size: ({ size }: Item) => size,
}
type Name = keyof typeof fields

const names = fc.constantFrom<Name>('id', 'color', 'size')
const colors = fc.constantFrom('red', 'green', 'blue')
const sizes = fc.integer({ min: 0, max: 3 })
const queries: fc.Arbitrary<ListQuery<Name>> = fc.record({
  filters: fc.array(
    fc.oneof(
      fc.record({ field: fc.constant('color' as const), value: fc.constantFrom('red', 'green', 'none') }),
      fc.record({ field: fc.constant('size' as const), value: sizes.map(String) }),
    ),
    { maxLength: 2 },
  ),
  sort: fc.array(fc.record({ field: names, descending: fc.boolean() }), { maxLength: 2 }),
})
const numbers = fc.integer({ min: 0, max: 12 })
const steps = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({ kind: fc.constant('set' as const), id: numbers, color: colors, size: sizes }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('delete' as const), id: numbers }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('ask' as const), query: queries }) },
  // Begins a query without waiting for its answer, so that the table changes while the answer is built.
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('begin' as const), query: queries }) },
)

const makeTable = () => new Table<Item, Name>({ fields, compare: (a, b) => a.id - b.id, counted: ['color'] })

describe('a table that answers sorted and filtered queries', () => {
  it('returns the same items as a search through all items, after any sequence of changes', () =>
    fc.assert(
      fc.asyncProperty(fc.array(steps, { maxLength: 40 }), async (list) => {
        const [table, model] = [makeTable(), new Map<string, Item>()]
        const begun: Promise<unknown>[] = []
        for (const step of list) {
          if (step.kind === 'set') {
            const item = { key: `k${step.id}`, id: step.id, color: step.color, size: step.size }
            table.set(item.key, item)
            model.set(item.key, item)
          } else if (step.kind === 'delete') {
            table.delete(`k${step.id}`)
            model.delete(`k${step.id}`)
          } else if (step.kind === 'begin') begun.push(table.select(step.query))
          else await checkAnswer(table, model, step.query)
        }
        await Promise.all(begun)
        for (const step of list)
          if (step.kind === 'ask' || step.kind === 'begin') await checkAnswer(table, model, step.query)
      }),
      { numRuns: 300 },
    ))

  it('includes items that change while an answer with many items is built', async () => {
    const table = makeTable()
    const model = new Map<string, Item>()
    const set = (id: number, color: string, size: number): void => {
      const item = { key: `k${id}`, id, color, size }
      table.set(item.key, item)
      model.set(item.key, item)
    }
    for (let id = 0; id < 20_000; id++) set(id, id % 2 === 0 ? 'red' : 'green', id % 7)
    const query: ListQuery<Name> = {
      filters: [{ field: 'color', value: 'red' }],
      sort: [{ field: 'size', descending: true }],
    }
    const making = table.select(query)
    let ended = false
    void making.then(() => (ended = true))
    let turns = 0
    for (let id = 0; !ended; id += 97) {
      set(id % 20_000, 'red', id % 5)
      set((id + 10_001) % 20_000, 'green', 1)
      table.delete(`k${(id + 5) % 20_000}`)
      model.delete(`k${(id + 5) % 20_000}`)
      set(20_000 + id, 'red', 9)
      turns++
      await new Promise(setImmediate)
    }
    expect(turns, 'turns of the event loop').to.be.greaterThan(1)
    await checkAnswer(table, model, query)
  })

  it('answers correctly even if items are added, removed and moved in every short pause of a query', () =>
    fc.assert(
      fc.asyncProperty(queries, fc.array(moves, { maxLength: 12 }), async (query, turns) => {
        const lab = new MovingLab(400)
        const making = inShortSlices(async () => {
          const selecting = lab.table.select(query)
          for (const turn of turns) {
            for (const move of turn) lab.apply(move)
            await new Promise(setImmediate)
          }
          await selecting
        })
        await making
        await lab.check(query)
      }),
      { numRuns: 150 },
    ))

  it('returns the new state when many items have changed at the same time', async () => {
    const [table, model] = [makeTable(), new Map<string, Item>()]
    const shared = { color: 'red' }
    for (let id = 0; id < 10; id++) {
      const item =
        id < 5
          ? Object.assign(Object.create(shared) as Item, { key: `k${id}`, id, size: 0 })
          : { key: `k${id}`, id, color: 'green', size: 0 }
      table.set(item.key, item)
      model.set(item.key, item)
    }
    const query: ListQuery<Name> = { filters: [{ field: 'color', value: 'red' }], sort: [] }
    await checkAnswer(table, model, query)
    table.changeAll(['k0', 'k1', 'k2', 'k3', 'k4'], ['color'], () => (shared.color = 'blue'))
    await checkAnswer(table, model, query)
    await checkAnswer(table, model, { filters: [{ field: 'color', value: 'blue' }], sort: [] })
  })

  it('answers correctly even with more different queries than its cache can store', async () => {
    const [table, model] = [makeTable(), new Map<string, Item>()]
    for (let id = 0; id < 50; id++) {
      const item = { key: `k${id}`, id, color: 'red', size: id }
      table.set(item.key, item)
      model.set(item.key, item)
    }
    const queryOf = (size: number): ListQuery<Name> => ({
      filters: [{ field: 'size', value: String(size) }],
      sort: [],
    })
    await Promise.all(Array.from({ length: 50 }, (_, size) => checkAnswer(table, model, queryOf(size))))
    expect(table.cachedResults).to.be.at.most(maxCachedResults)
    for (let size = 0; size < 50; size++) await checkAnswer(table, model, queryOf(size))
  })
})

describe('a sort with a repeated field', () => {
  it('uses the same cached result as a sort that contains the field only once', async () => {
    const table = makeTable()
    table.set('k', { key: 'k', id: 1, color: 'red', size: 1 })
    const size = { field: 'size', descending: false } as const
    for (let times = 1; times <= 3; times++)
      await table.select({ filters: [], sort: Array.from({ length: times }, () => size) })
    expect(table.cachedResults).to.equal(1)
  })
})

/** Changes of items while the table answers a query. `move` changes `at`, by which the table orders its items. */
const moves = fc.array(
  fc.record({
    kind: fc.constantFrom('set', 'delete', 'replace', 'move'),
    id: fc.integer({ min: 0, max: 420 }),
    color: colors,
    size: sizes,
    at: fc.integer({ min: 0, max: 420 }),
  }),
  { minLength: 20, maxLength: 60 },
)
type Move = typeof moves extends fc.Arbitrary<(infer One)[]> ? One : never

/** A table and a model of it. The table is ordered by a time that may be corrected, like the table of operations. */
class MovingLab {
  readonly table = new Table<Item & { at: number }, Name>({
    fields,
    compare: (a, b) => a.at - b.at || a.id - b.id,
    counted: ['color'],
  })
  readonly #model = new Map<string, Item & { at: number }>()

  constructor(count: number) {
    for (let id = 0; id < count; id++) this.#set({ id, color: id % 2 ? 'red' : 'green', size: id % 4, at: id })
  }

  apply({ kind, ...item }: Move): void {
    const before = this.#model.get(`k${item.id}`)
    if (kind === 'set' && before) return this.#set({ ...item, at: before.at })
    this.table.delete(`k${item.id}`)
    this.#model.delete(`k${item.id}`)
    if (kind === 'replace' && before) this.#set({ ...item, at: before.at })
    else if (kind !== 'delete') this.#set(item)
  }

  async check(query: ListQuery<Name>): Promise<void> {
    const all = [...this.#model.values()].sort((a, b) => a.at - b.at || a.id - b.id)
    const keys = (items: readonly Item[]) => items.map(({ key }) => key)
    const answer = await this.table.select(query)
    expect(keys(answer.slice(0, Infinity))).to.deep.equal(keys(selectFrom(all, fields, query)))
  }

  #set(item: Omit<Move, 'kind'>): void {
    const named = { key: `k${item.id}`, ...item }
    this.table.set(named.key, named)
    this.#model.set(named.key, named)
  }
}

/** Runs `run` with a fast clock, so that each step of the table's work gets its own turn of the event loop. */
async function inShortSlices(run: () => Promise<void>): Promise<void> {
  const now = performance.now.bind(performance)
  let late = 0
  // Each reading of the clock adds 2 ms. A slice lasts 3 ms and reads the clock at its start and before each step.
  performance.now = () => now() + (late += 2)
  try {
    await run()
  } finally {
    performance.now = now
  }
}

async function checkAnswer(table: Table<Item, Name>, model: ReadonlyMap<string, Item>, query: ListQuery<Name>) {
  const result = await table.select(query)
  const all = [...model.values()].sort((a, b) => a.id - b.id)
  const expected = selectFrom(all, fields, query).map(({ key }) => key)
  expect(result.slice(0, Infinity).map(({ key }) => key)).to.deep.equal(expected)
  expect(result.size).to.equal(expected.length)
  const [from, to] = [Math.floor(expected.length / 3), Math.floor(expected.length / 2)]
  expect(result.slice(from, to).map(({ key }) => key)).to.deep.equal(expected.slice(from, to))
}

describe('a sorted list', () => {
  it('equals a sorted array after any additions and removals', () =>
    fc.assert(
      fc.property(
        fc.array(fc.tuple(fc.boolean(), fc.integer({ min: 0, max: 3000 })), {
          minLength: 3000,
          maxLength: 6000,
        }),
        (list) => {
          const [sorted, model] = [new SortedList<number>((a, b) => a - b), new Set<number>()]
          for (const [isNew, value] of list) {
            const had = model.has(value)
            if (isNew) expect(sorted.add(value)).to.equal(!had)
            else expect(sorted.delete(value)).to.equal(had)
            if (isNew) model.add(value)
            else model.delete(value)
          }
          const expected = [...model].sort((a, b) => a - b)
          expect([...sorted]).to.deep.equal(expected)
          expect(sorted.size).to.equal(expected.length)
          const walked: number[] = []
          for (let next = sorted.after(undefined, 100); next.length > 0; next = sorted.after(next.at(-1), 100))
            walked.push(...next)
          expect(walked).to.deep.equal(expected)
          for (const from of [0, 1, 511, 512, 513, 1000])
            expect(sorted.slice(from, from + 700)).to.deep.equal(expected.slice(from, from + 700))
          for (const gone of [-1, 17, 1500, 9999])
            expect(sorted.after(gone, 1)[0]).to.equal(expected.find((value) => value > gone))
          for (const value of expected) sorted.delete(value)
          expect([...sorted]).to.deep.equal([])
          expect(sorted.after(undefined, 1)).to.deep.equal([])
        },
      ),
      { numRuns: 20 },
    ))
})
