import { expect } from 'chai'
import type { Principal } from '../access/principal.js'
import { maxKeptBytes, runWrite, type Write } from './write.js'

const write: Write = {
  method: 'POST',
  path: '/x',
  querystring: '',
  bodyBytes: Buffer.alloc(0),
  idempotencyKey: 'key',
  caller: {} as Principal,
  address: '::1',
  requestId: 'r',
  action: undefined,
  target: '',
}

describe('a repeated request with an Idempotency-Key', () => {
  it('runs again if its answer was too long to be stored', async () => {
    const ends: string[] = []
    const end = (name: string) => () => Promise.resolve(void ends.push(name))
    const claim = { id: 'i', operationId: 'o' }
    const idempotency = {
      begin: () => Promise.resolve({ claim }),
      finish: end('kept'),
      release: end('released'),
    }
    const fail = (error: unknown): never => expect.fail(String(error))
    const shared = { visibleEverywhere: () => Promise.resolve() }
    const access = { idempotency, shared } as unknown as Parameters<typeof runWrite>[0]
    for (const bytes of [maxKeptBytes, maxKeptBytes + 1]) {
      const reply = { status: 200, headers: {}, body: 'x'.repeat(bytes) }
      await runWrite(access, write, () => Promise.resolve({ reply, target: '', detail: '' }), fail)
    }
    expect(ends).to.deep.equal(['kept', 'released'])
  })
})
