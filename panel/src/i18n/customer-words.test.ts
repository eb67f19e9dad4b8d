import { expect } from 'chai'
import { withCustomerWords } from './customer-words.ts'
import { en } from './en/index.ts'

const cases: Record<string, string> = {
  'Guests of this guest': 'Servers of this server',
  'The guest’s disk, {{guests}} guests, guest-1': 'The server’s disk, {{guests}} servers, server-1',
  'The guest agent of the guest': 'The guest agent of the server',
  'Guesthouse and suggest': 'Guesthouse and suggest',
}

describe('the English texts for customers', () => {
  for (const [text, expected] of Object.entries(cases))
    it(`contain "${expected}" instead of "${text}"`, () =>
      expect(withCustomerWords({ text })).to.deep.equal({ text: expected }))

  it('insert the same values as the texts for administrators', () => {
    const valuesOf = (texts: Readonly<Record<string, string>>) =>
      Object.values(texts).map((text) => text.match(/\{\{[^}]*\}\}/g))
    expect(valuesOf(withCustomerWords(en))).to.deep.equal(valuesOf(en))
  })
})
