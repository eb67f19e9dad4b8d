import { expect } from 'chai'
import { maxHidden, parseHidden, warningKey, withHidden } from './hidden-warnings.ts'

describe('the warnings that are hidden in the overview', () => {
  for (const [name, stored, expected] of [
    ['nothing is stored', null, []],
    ['the stored text is not JSON', '["a"', []],
    ['the stored value is not a list', '{"a":1}', []],
    ['an element is not a string', '["a",7,null]', ['a']],
  ] as const)
    it(`are read if ${name}`, () => expect(parseHidden(stored)).to.deep.equal(expected))

  it('are stored once, the newest last', () =>
    expect(withHidden(['a', 'b', 'c'], ['b', 'd'])).to.deep.equal(['a', 'c', 'b', 'd']))

  it('are limited in number', () => {
    const many = Array.from({ length: maxHidden }, (_, at) => `old-${at}`)
    const all = withHidden(many, ['new'])
    expect(all).to.have.length(maxHidden).and.include('new').and.not.include('old-0')
  })

  it('differ by host and text', () => {
    const keys = [warningKey('a', 'full'), warningKey('b', 'full'), warningKey('a', 'fuller')]
    expect(new Set(keys)).to.have.property('size', 3)
  })
})
