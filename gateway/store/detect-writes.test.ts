import { expect } from 'chai'
import type { StoreClient } from './connection.js'
import { detectWrites } from './detect-writes.js'

/** A transaction whose commands return the transaction itself, as in node-redis. */
class FakeTransaction {
  readonly commands: string[] = []
  set(key: string): this {
    this.commands.push(`set ${key}`)
    return this
  }
  get(key: string): this {
    this.commands.push(`get ${key}`)
    return this
  }
  exec(): Promise<string[]> {
    return Promise.resolve(this.commands)
  }
}

class FakeClient {
  readonly isReady = true
  get = (key: string) => Promise.resolve(`value of ${key}`)
  set = (key: string) => Promise.resolve(`set ${key}`)
  brandNewCommand = () => Promise.resolve('done')
  multi = () => new FakeTransaction()
}

type Use = (client: FakeClient) => Promise<unknown>

const cases: [string, Use, boolean, unknown][] = [
  ['a call that reads', (client) => client.get('a'), false, 'value of a'],
  ['a call that writes', (client) => client.set('a'), true, 'set a'],
  ['a command that is not in the table of read commands', (client) => client.brandNewCommand(), true, 'done'],
  ['a transaction that only reads', (client) => client.multi().get('a').get('b').exec(), false, ['get a', 'get b']],
  [
    'a transaction that writes between two reads',
    (client) => client.multi().get('a').set('b').get('c').exec(),
    true,
    ['get a', 'set b', 'get c'],
  ],
  ['code that only reads a property of the client', (client) => Promise.resolve(client.isReady), false, true],
]

describe('the detection of writes in store commands', () => {
  for (const [name, use, hasWritten, result] of cases)
    it(`finds ${hasWritten ? 'a write' : 'no write'} in ${name}`, async () => {
      const writes = detectWrites(new FakeClient() as unknown as StoreClient)
      expect(await use(writes.client as unknown as FakeClient)).to.deep.equal(result)
      expect(writes.hasWritten).to.equal(hasWritten)
    })
})
