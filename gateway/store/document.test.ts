import { expect } from 'chai'
import { pino } from 'pino'
import { StoredDocument } from './document.js'
import type { Store } from './store.js'

/** A store with one document. A test makes it report changes of the document and new connections. */
class FakeStore {
  text: string | null = null
  reads = 0
  reportChange = (_: string | null): unknown => undefined
  reportUp = (_: string): unknown => undefined

  key = (name: string): string => name
  ready = (): boolean => true
  onInvalidate = (_: string, listener: (key: string | null) => unknown): unknown => (this.reportChange = listener)
  on = (_: string, listener: () => unknown): unknown => (this.reportUp = listener)
  run = (_: string, commands: (client: object) => Promise<unknown>): Promise<unknown> =>
    commands({ get: () => Promise.resolve((this.reads++, this.text)) })
}

describe('the gateway’s copy of a stored document', () => {
  const begin = async () => {
    const store = new FakeStore()
    const log = pino({ level: 'silent' })
    const document = new StoredDocument<string>({ store: store as unknown as Store, name: 'd', initial: 'none', log })
    const heard: string[] = []
    document.onChange((value) => heard.push(value))
    const change = async (version: number, value: string, report: 'reportChange' | 'reportUp'): Promise<string> => {
      store.text = JSON.stringify({ version, value })
      store[report]('d')
      await new Promise(setImmediate)
      return document.current
    }
    expect(await change(5, 'five', 'reportUp')).to.equal('five')
    return { change, heard, store, document }
  }

  it('is replaced by a newer version', async () => {
    const { change, heard } = await begin()
    expect(await change(6, 'six', 'reportChange')).to.equal('six')
    expect(heard).to.deep.equal(['five', 'six'])
  })

  it('is not replaced by an older version that arrives late', async () => {
    const { change } = await begin()
    expect(await change(4, 'four', 'reportChange')).to.equal('five')
  })

  it('is replaced by the value of a new Redis master, even if this value has a lower version number', async () => {
    const { change, heard } = await begin()
    expect(await change(4, 'four', 'reportUp')).to.equal('four')
    expect(await change(5, 'another five', 'reportChange')).to.equal('another five')
    expect(heard).to.deep.equal(['five', 'four', 'another five'])
  })

  it('is replaced by the value of a new Redis master, even if this value has the same version number', async () => {
    const { change, heard } = await begin()
    expect(await change(5, 'another five', 'reportUp')).to.equal('another five')
    expect(heard).to.deep.equal(['five', 'another five'])
  })

  it('notifies listeners only once of a new version, even if the store connects again', async () => {
    const { change, heard } = await begin()
    expect(await change(5, 'five', 'reportUp')).to.equal('five')
    expect(heard).to.deep.equal(['five'])
  })
  it('is not read again if the name of a changed key only begins with the name of the document’s key', async () => {
    const { store } = await begin()
    const before = store.reads
    await store.reportChange('d-worker')
    expect(store.reads).to.equal(before)
  })

  it('notifies listeners only once that the document has disappeared from the store', async () => {
    const { store, document, heard } = await begin()
    store.text = null
    for (const _ of [1, 2]) await store.reportChange('d')
    expect(document.current).to.equal('none')
    expect(heard).to.deep.equal(['five', 'none'])
  })
})
