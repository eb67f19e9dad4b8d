import { expect } from 'chai'
import { createHash } from 'node:crypto'
import { canonicalJson, hashRequest } from './request-hash.js'

describe('the hash of a request', () => {
  for (const [name, value, text] of [
    ['orders keys at every depth', { b: [{ d: 1, c: 2 }], a: null }, '{"a":null,"b":[{"c":2,"d":1}]}'],
    ['keeps the order of lists', [3, 1, 2], '[3,1,2]'],
    ['leaves out fields with the value undefined', { a: undefined, b: 1 }, '{"b":1}'],
    ['treats an undefined request as null', undefined, 'null'],
    ['keeps a key named __proto__', JSON.parse('{"__proto__":1,"a":2}'), '{"__proto__":1,"a":2}'],
  ] as const)
    it(name, () => expect(canonicalJson(value)).to.equal(text))

  it('depends on action, subject and request, but not on the order of keys', () => {
    const guest = { kind: 'guest', id: 'u' }
    const same = hashRequest('stop', guest, { force: true, x: 1 })
    expect(hashRequest('stop', guest, { x: 1, force: true })).to.equal(same)
    const others = [
      hashRequest('start', guest, { force: true, x: 1 }),
      hashRequest('stop', { kind: 'guest', id: 'v' }, { force: true, x: 1 }),
      hashRequest('stop', guest, { force: false, x: 1 }),
      hashRequest('stop', { kind: 'image', id: 'u' }, { force: true, x: 1 }),
    ]
    expect(new Set([...others, same]).size).to.equal(5)
  })

  it('is the same as in earlier versions of the agent if the request concerns a guest', () =>
    expect(hashRequest('stop', { kind: 'guest', id: 'u' }, { force: true })).to.equal(
      createHash('sha256').update('{"action":"stop","guestUuid":"u","request":{"force":true}}').digest('hex'),
    ))
})
