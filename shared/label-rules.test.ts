import { expect } from 'chai'
import { checkNote, parseTags } from './label-rules.js'

describe('the labels (tags and note) of a guest', () => {
  for (const [name, tags, parsed] of [
    ['no tags', [], []],
    ['all allowed characters', ['a-z_0.9:x'], ['a-z_0.9:x']],
    ['tags in alphabetical order, each once', ['web', 'db', 'web'], ['db', 'web']],
    ['a tag of 32 characters', ['x'.repeat(32)], ['x'.repeat(32)]],
  ] as const)
    it(`can include ${name}`, () => expect(parseTags(tags)).to.deep.equal(parsed))

  for (const [name, tags] of [
    ['an empty tag', ['']],
    ['a tag of 33 characters', ['x'.repeat(33)]],
    ['an upper-case letter in a tag', ['Web']],
    ['a space in a tag', ['a b']],
    ['a line break after a tag', ['web\n']],
    ['17 tags', Array.from({ length: 17 }, (_, index) => `tag-${index}`)],
  ] as const)
    it(`cannot include ${name}`, () => expect(() => parseTags(tags)).to.throw(/^tags: /))

  for (const [name, note] of [
    ['no note', ''],
    ['a note of several lines', 'Paid until May.\n\tAsk 李雷 first.'],
    ['a note of 1000 emoji', '😀'.repeat(1000)],
  ] as const)
    it(`can include ${name}`, () => expect(checkNote(note)).to.equal(note))

  for (const [name, note] of [
    ['a note of 1001 characters', 'x'.repeat(1001)],
    ['control characters in a note', 'a\u001b[31m'],
  ] as const)
    it(`cannot include ${name}`, () => expect(() => checkNote(note)).to.throw(/^note: /))
})
