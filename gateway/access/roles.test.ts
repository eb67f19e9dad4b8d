import { expect } from 'chai'
import { checkMayGive, roles, scopesOf, type Role } from './roles.js'
import { coversScope, scopeCatalogue } from './scopes.js'

const may = (role: Role, scope: string): boolean => coversScope(scopesOf(role), scope)

describe('the roles of administrators', () => {
  it('have all rights of the next lower role', () => {
    for (const [at, role] of roles.entries())
      for (const lower of roles.slice(at))
        expect(
          scopesOf(lower).filter((scope) => !may(role, scope)),
          `${role} lacks scopes of ${lower}`,
        ).to.deep.equal([])
  })

  for (const [role, allowed, refused] of [
    ['full', ['*', ...scopeCatalogue], []],
    ['operator', ['container:delete', 'host:manage'], ['*', 'admin:access', 'apikey:read', 'apikey:create']],
    [
      'support',
      ['container:power', 'terminal:ssh', 'host:read'],
      ['container:delete', 'host:manage', 'subuser:update'],
    ],
    ['read_only', ['container:read', 'audit:read'], ['container:power', 'terminal:ssh', 'webhook:manage']],
  ] as const)
    it(`permit the scopes of the role ${role}, and refuse scopes that only higher roles have`, () => {
      expect(allowed.filter((scope) => !may(role, scope))).to.deep.equal([])
      expect(refused.filter((scope) => may(role, scope))).to.deep.equal([])
    })

  for (const [giver, role, isAllowed] of [
    ['full', 'full', true],
    ['full', 'read_only', true],
    ['operator', 'full', false],
    ['operator', 'operator', true],
    ['support', 'operator', false],
  ] as const)
    it(`${isAllowed ? 'can' : 'cannot'} be given by an administrator with the role ${giver}: ${role}`, () => {
      const give = () => checkMayGive({ scopes: scopesOf(giver) }, role)
      if (isAllowed) expect(give).to.not.throw()
      else expect(give).to.throw('exceeds the rights of the caller')
    })
})
