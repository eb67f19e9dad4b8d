import { expect } from 'chai'
import { checkProgram, maxProgramBytes, maxProgramWords } from './program-rules.js'

describe('the rules for programs in containers', () => {
  const full = ['a'.repeat(maxProgramBytes - 1)]
  for (const [name, words] of [
    ['arguments with spaces, quotes and line ends', ['sh', '-c', 'echo "$1"\n', "it's", '']],
    ['the maximum size', full],
    ['the maximum number of words', Array.from({ length: maxProgramWords }, () => 'a')],
  ] as const)
    it(`accepts ${name}`, () => expect(checkProgram(words)).to.equal(words))

  for (const [name, words, message] of [
    ['no words', [], 'command: must begin with the name of a program'],
    ['an empty name', ['', 'a'], 'command: must begin with the name of a program'],
    ['a NUL character', ['cat', 'a\0b'], 'command: must not contain NUL characters'],
    ['half of a surrogate pair', ['cat', '\ud800'], 'command: must be valid Unicode'],
    ['too many words', Array.from({ length: maxProgramWords + 1 }, () => 'a'), 'command: must have at most 256 words'],
    ['too many bytes', [...full, ''], 'command: must have at most 8192 bytes'],
    ['too many bytes of long characters', ['中'.repeat(2800)], 'command: must have at most 8192 bytes'],
  ] as const)
    it(`refuses ${name}`, () => {
      expect(() => checkProgram(words))
        .to.throw(message)
        .with.property('code', 'invalid_field')
    })
})
