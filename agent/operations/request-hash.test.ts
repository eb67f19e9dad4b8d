import { expect } from 'chai'
import { canonicalJson, hashRequest } from './request-hash.js'

describe('request hash', () => {
  for (const [name, value, text] of [
    ['orders keys at every depth', { b: [{ d: 1, c: 2 }], a: null }, '{"a":null,"b":[{"c":2,"d":1}]}'],
    ['keeps the order of lists', [3, 1, 2], '[3,1,2]'],
    ['drops what JSON does not know', { a: undefined, b: 1 }, '{"b":1}'],
    ['takes nothing as null', undefined, 'null'],
    ['keeps a key named __proto__', JSON.parse('{"__proto__":1,"a":2}'), '{"__proto__":1,"a":2}'],
  ] as const)
    it(name, () => expect(canonicalJson(value)).to.equal(text))

  it('differs by action, guest and request, not by key order', () => {
    const same = hashRequest('stop', 'u', { force: true, x: 1 })
    expect(hashRequest('stop', 'u', { x: 1, force: true })).to.equal(same)
    const others = [
      hashRequest('start', 'u', { force: true, x: 1 }),
      hashRequest('stop', 'v', { force: true, x: 1 }),
      hashRequest('stop', 'u', { force: false, x: 1 }),
    ]
    expect(new Set([...others, same]).size).to.equal(4)
  })
})
