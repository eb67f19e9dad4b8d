import { expect } from 'chai'
import { toStoreError, withTimeout } from './connection.js'

/** Resolves after `turns` turns of the event loop, each of which takes very long. */
async function answerAfter(turns: number): Promise<string> {
  for (; turns > 0; turns--) {
    await new Promise(setImmediate)
    for (const until = performance.now() + 30; performance.now() < until;);
  }
  return 'answer'
}

describe('a store command with a time limit', () => {
  it('accepts an answer that is late only because the event loop was blocked', async () => {
    const begun = performance.now()
    expect(await withTimeout(100, answerAfter(20))).to.equal('answer')
    expect(performance.now() - begun).to.be.greaterThan(500)
  })

  it('fails if no answer arrives within the limit', async () => {
    const failure = await withTimeout(50, new Promise(() => undefined)).catch((error: unknown) => error)
    expect(String(failure)).to.include('no answer within 50 ms')
  })
})

describe('a transaction that Redis refused', () => {
  for (const [name, reply, code] of [
    [
      'the Redis master has become a replica',
      "READONLY You can't write against a read only replica.",
      'store_unavailable',
    ],
    ['the transaction contains a wrong command', "ERR wrong number of arguments for 'set' command", 'internal_error'],
  ] as const)
    it(`leads to the error ${code} if ${name}`, () => {
      const refusal = new Error(`EXECABORT Transaction discarded because of: ${reply}`)
      expect(toStoreError(refusal, 'write').code).to.equal(code)
    })
})
