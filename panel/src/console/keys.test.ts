import { expect } from 'chai'
import { withHeld } from './keys.ts'

describe('text sent with the modifiers of the key bar', () => {
  for (const [name, text, held, sent] of [
    ['a letter without modifiers', 'c', {}, 'c'],
    ['Ctrl and a letter', 'c', { ctrl: true }, '\x03'],
    ['Ctrl and a capital letter', 'C', { ctrl: true }, '\x03'],
    ['Ctrl and [', '[', { ctrl: true }, '\x1b'],
    ['Ctrl and a space', ' ', { ctrl: true }, '\0'],
    ['Ctrl and ?', '?', { ctrl: true }, '\x7f'],
    ['Ctrl and a digit', '1', { ctrl: true }, '1'],
    ['Ctrl and a character of another script', '中', { ctrl: true }, '中'],
    ['Ctrl and pasted text', 'abc', { ctrl: true }, 'abc'],
    ['Ctrl and an arrow', '\x1b[D', { ctrl: true }, '\x1b[1;5D'],
    ['Alt and a letter', 'b', { alt: true }, '\x1bb'],
    ['Ctrl, Alt and a letter', 'x', { ctrl: true, alt: true }, '\x1b\x18'],
  ] as const)
    it(`is ${JSON.stringify(sent).replace('\x7f', '\\u007f')} for ${name}`, () =>
      expect(withHeld(text, { ctrl: false, alt: false, ...held })).to.equal(sent))
})
