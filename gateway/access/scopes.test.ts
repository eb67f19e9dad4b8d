import { expect } from 'chai'
import fc from 'fast-check'
import { coversScope, defaultScopes, intersectScopes, isGrantable, scopeCatalogue } from './scopes.js'

describe('the check of scopes', () => {
  for (const [granted, scope, covered] of [
    [['container:read'], 'container:read', true],
    [['container:read'], 'container:power', false],
    [['container:*'], 'container:power', true],
    [['container:*'], 'container:*', true],
    [['container:read'], 'container:*', false],
    [['*'], 'admin:access', true],
    [['*'], '*', true],
    [['container:*'], '*', false],
    [['admin:*'], 'administrator:access', false],
    [[], 'container:read', false],
  ] as const)
    it(`finds that [${granted.join(' ')}] ${covered ? 'covers' : 'does not cover'} ${scope}`, () =>
      expect(coversScope(granted, scope)).to.equal(covered))

  it('accepts the default scopes and wildcards, but no unknown scopes', () => {
    expect(defaultScopes.every((scope) => scopeCatalogue.includes(scope))).to.equal(true)
    expect(['*', 'container:*', 'terminal:vnc'].every(isGrantable)).to.equal(true)
    for (const made of ['', 'any', 'container', 'container:', 'Container:read', '*:read', 'x:*', '__proto__'])
      expect(isGrantable(made), made).to.equal(false)
  })

  it('finds exactly the scopes that two lists have in common', () => {
    const scope = fc.constantFrom('*', 'container:*', 'apikey:*', 'container:read', 'apikey:read', 'audit:read')
    const list = fc.uniqueArray(scope, { maxLength: 4 })
    fc.assert(
      fc.property(list, list, fc.constantFrom(...scopeCatalogue), (a, b, asked) => {
        const both = coversScope(a, asked) && coversScope(b, asked)
        return coversScope(intersectScopes(a, b), asked) === both
      }),
      { numRuns: 2000 },
    )
  })
})
