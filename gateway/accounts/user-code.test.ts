import { expect } from 'chai'
import { createUserCode, digestUserCode } from './user-code.js'

describe('the code of a login of the command line', () => {
  it('consists of two groups of four consonants, and differs each time', () => {
    const codes = Array.from({ length: 100 }, () => createUserCode())
    for (const code of codes) expect(code).to.match(/^[BCDFGHJKLMNPQRSTVWXZ]{4}-[BCDFGHJKLMNPQRSTVWXZ]{4}$/)
    expect(new Set(codes).size).to.equal(100)
  })

  for (const text of ['bdfh-kmpr', 'BDFHKMPR', ' BDFH KMPR '])
    it(`is recognized in “${text}”`, () =>
      expect(digestUserCode(text))
        .to.match(/^[0-9a-f]{64}$/)
        .and.to.equal(digestUserCode('BDFH-KMPR')))

  for (const text of ['', 'BDFH-KMP', 'BDFH-KMPRS', 'BDFH-KMPA', 'BDFH_KMPR'])
    it(`is not recognized in “${text}”`, () => expect(digestUserCode(text)).to.equal(undefined))
})
