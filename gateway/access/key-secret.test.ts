import { expect } from 'chai'
import { createKeySecret, digestKey, isKeySecret, shownPrefix } from './key-secret.js'

describe('the secrets of API keys', () => {
  it('have the same format, differ from each other, and are recognized as API keys', () => {
    const keys = Array.from({ length: 1000 }, createKeySecret)
    expect(new Set(keys).size).to.equal(1000)
    for (const key of keys) {
      expect(key).to.match(/^berth_sk_[0-9A-Za-z]{49}$/)
      expect(isKeySecret(key)).to.equal(true)
    }
  })

  it('contain all letters and digits about equally often', () => {
    const digits = Array.from({ length: 2000 }, () => createKeySecret().slice(9, 52)).join('')
    const counts = new Map<string, number>()
    for (const digit of digits) counts.set(digit, (counts.get(digit) ?? 0) + 1)
    const expected = digits.length / 62
    expect(counts.size).to.equal(62)
    for (const count of counts.values()) expect(Math.abs(count - expected)).to.be.lessThan(6 * Math.sqrt(expected))
  })

  it('are rejected if a character was changed, removed or added', () => {
    const key = createKeySecret()
    for (let i = 0; i < key.length; i++)
      expect(isKeySecret(key.slice(0, i) + (key[i] === 'a' ? 'b' : 'a') + key.slice(i + 1)), `${i}`).to.equal(false)
    for (const other of ['', 'berth_sk_', key.slice(0, -1), `${key}0`, `${key}\n`, ` ${key}`])
      expect(isKeySecret(other)).to.equal(false)
  })

  it('are displayed with only their first 15 characters, and have a hexadecimal digest', () => {
    const key = createKeySecret()
    expect(shownPrefix(key)).to.equal(`${key.slice(0, 15)}...`)
    expect(digestKey(key)).to.match(/^[0-9a-f]{64}$/)
  })
})
