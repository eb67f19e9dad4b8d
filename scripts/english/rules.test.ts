import { expect } from 'chai'
import { rules } from './rules.js'

const violationsOf = (text: string): string[] =>
  rules.filter(({ pattern }) => text.search(pattern) >= 0).map(({ name }) => name)

describe('the check for plain English', () => {
  for (const [text, violations] of [
    ['The guest has it not.', ['negation']],
    ['It knows not the reason.', ['negation']],
    ['The guest has not started yet.', []],
    ['They have not been sent.', []],
    ['The transfer has not begun.', []],
    ['There are no guests.', []],
    ['The name is no UUID.', ['is no']],
  ] as const)
    it(`${violations.length === 0 ? 'accepts' : `finds a violation of the rule "${violations.join(', ')}" in`} "${text}"`, () =>
      expect(violationsOf(text)).to.deep.equal(violations))
})
