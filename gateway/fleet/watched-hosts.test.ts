import { expect } from 'chai'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { pino } from 'pino'
import type { HostRecord } from './host-record.js'
import type { HostList } from './host-store.js'
import { FleetState } from './view.js'
import { WatchedHosts, type WatchedHostsOptions } from './watched-hosts.js'

/** A host that has not joined, so that the gateway does not connect to it. */
const recordOf = (id: string, version = 1): HostRecord => ({
  ...{ id, version, name: id, address: 'a:1', draining: false, createdAtMs: 0 },
  ...{ serials: [], certificateNotAfterMs: 0 },
})

/** The fake store reports changes only through `reportChange`. Its `restore` of lost hosts never resolves. */
describe('the hosts of a gateway after the store has lost them', () => {
  let list: HostList
  let restored: string[]
  let reportChange: () => Promise<void>
  let view: FleetState
  beforeEach(async () => {
    view = new FleetState()
    restored = []
    const store = {
      onNewServer: () => undefined,
      onChange: (listener: () => Promise<void>) => (reportChange = listener),
      list: () => Promise.resolve(list),
      restore: ({ id }: HostRecord) => {
        restored.push(id)
        return new Promise(() => undefined)
      },
    }
    const cache = { load: () => Promise.resolve([]) }
    new WatchedHosts({ view, store, cache, log: pino({ level: 'silent' }) } as unknown as WatchedHostsOptions)
    list = { records: [recordOf('one'), recordOf('two')], removed: new Set() }
    await reportChange()
    list = { records: [recordOf('two', 2)], removed: new Set() }
  })

  it('include changes by other gateways even before this gateway has written the hosts to the store again', async () => {
    await reportChange()
    expect([...view.states()].map(({ record }) => [record.id, record.version])).to.deep.equal([
      ['one', 1],
      ['two', 2],
    ])
    await nextTurn()
    expect(restored).to.deep.equal(['one'])
  })

  it('can still change while this gateway writes them to the store again', async () => {
    await reportChange()
    list = { records: [recordOf('two', 3)], removed: new Set() }
    await reportChange()
    expect(view.findState('two')?.record.version).to.equal(3)
  })
})
