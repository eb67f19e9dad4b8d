import { expect } from 'chai'
import { findScopes } from './scopes.ts'

describe('the scopes that the panel offers for API keys', () => {
  for (const [text, wildcards, scopes] of [
    ['swap', ['swap:*'], ['swap:read', 'swap:manage']],
    [' Restore ', ['snapshot:*', 'backup:*'], ['snapshot:restore', 'backup:restore']],
    ['nothing', [], []],
  ] as const)
    it(`are found by "${text}"`, () => {
      const found = findScopes(text)
      expect(found.map(({ wildcard }) => wildcard)).to.deep.equal(wildcards)
      expect(found.flatMap((group) => group.scopes)).to.deep.equal(scopes)
    })
})
