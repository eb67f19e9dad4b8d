import { expect } from 'chai'
import { pino } from 'pino'
import type { Store } from '../store/store.js'
import { EventRing } from './ring.js'
import { SharedOrder } from './shared-order.js'

/** A store in memory with lists only. */
function listStore(): Store {
  const lists = new Map<string, string[]>()
  const multi = {
    del: (key: string) => lists.delete(key),
    rPush: (key: string, value: string) => lists.set(key, [...(lists.get(key) ?? []), value]),
    pExpire: () => undefined,
    exec: async () => undefined,
  }
  const client = { multi: () => multi, lRange: async (key: string) => lists.get(key) ?? [] }
  const run = (_: string, commands: (given: typeof client) => unknown) => Promise.resolve(commands(client))
  return {
    key: (...parts: string[]) => parts.join(':'),
    ready: () => true,
    on: () => undefined,
    client,
    run,
  } as unknown as Store
}

describe('the order of events in the store', () => {
  const ringOf = (epoch: string, revision: number) =>
    new EventRing({ epoch, first: 1, base: new Map([['x/record', revision]]) }, { count: 10, bytes: 1e6 })

  it('gives the position of an event id from another gateway, even if that gateway has restarted since', async () => {
    const options = { store: listStore(), log: pino({ level: 'silent' }), isShared: () => true }
    const own = new SharedOrder(options)
    const other = new SharedOrder(options)
    await own.record(ringOf('former', 5))
    const ring = ringOf('present', 6)
    await own.record(ring)
    ring.add(undefined, { lane: 'y/record', at: 7 })
    await own.record(ring)
    const find = (epoch: string, number: number) => other.find([{ epoch, number }])
    expect(await find('former', 0)).to.deep.equal(new Map([['x/record', 5]]))
    expect(await find('present', 0)).to.deep.equal(new Map([['x/record', 6]]))
    expect((await find('present', 1))?.get('y/record')).to.equal(7)
    expect(await find('present', 2)).to.equal(undefined)
  })
})
