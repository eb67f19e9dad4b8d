import { expect } from 'chai'
import { defaultCreationLimits } from '../access/creation-limits.js'
import type { Principal } from '../access/principal.js'
import type { SubUserAccount } from '../accounts/account-record.js'
import { checkAccountLimit, maxContainers, planSubUserChange } from './plan-sub-user.js'

describe('the limit on the number of sub-users that a caller can create', () => {
  const limit = defaultCreationLimits.subUsers
  const billing = { kind: 'key', root: 'key:2', unlimited: false } as Principal
  const boundTo = (boundRoot: string): Principal => ({ ...billing, boundRoot }) as Principal
  const admin = { kind: 'session', root: 'admin:1', accountKind: 'admin' } as Principal
  const accounts = (count: number, roots: Pick<SubUserAccount, 'root' | 'boundRoot'> = {}) =>
    Array.from({ length: count }, () => roots as SubUserAccount)
  const ofCustomer = { root: 'key:2', boundRoot: 'key:3' }
  const refusal = (all: SubUserAccount[], by: Principal): string => {
    try {
      checkAccountLimit(all, by, limit)
      return ''
    } catch (error) {
      return (error as { code: string }).code
    }
  }

  const full = 'account_limit_reached'
  for (const [what, all, by, code] of [
    [
      'a caller bound to containers that has one sub-user fewer than its limit',
      accounts(limit.bound - 1, ofCustomer),
      boundTo('key:3'),
      '',
    ],
    [
      'a caller bound to containers that has as many sub-users as its limit',
      accounts(limit.bound, ofCustomer),
      boundTo('key:3'),
      full,
    ],
    [
      'a caller bound to containers if a different caller bound to containers has reached its own limit',
      accounts(limit.bound, ofCustomer),
      boundTo('key:4'),
      '',
    ],
    [
      'a caller bound to containers if its creator has created many sub-users',
      accounts(5000, { root: 'key:2' }),
      boundTo('key:3'),
      '',
    ],
    [
      'a key with restricted rights, not bound to containers, that has 5000 sub-users',
      accounts(5000, { root: 'key:2' }),
      billing,
      '',
    ],
    [
      'a key with restricted rights, not bound to containers, that has as many sub-users as its limit',
      accounts(limit.others, { root: 'key:2' }),
      billing,
      full,
    ],
    [
      'an administrator if a caller bound to containers has reached its own limit',
      accounts(limit.others, ofCustomer),
      admin,
      '',
    ],
    ['an administrator if all administrators together have reached their limit', accounts(limit.others), admin, full],
  ] as [string, SubUserAccount[], Principal, string][])
    it(`${code === '' ? 'is not reached for' : 'is reached for'} ${what}`, () =>
      expect(refusal(all, by)).to.equal(code))
})

describe('a change of the containers of a sub-user', () => {
  const caller = { guests: 'all', scopes: ['*'] } as unknown as Principal
  const uuids = (from: number, to: number): string[] => Array.from({ length: to - from }, (_, at) => `u${from + at}`)
  const account = { scopes: [], containerUuids: uuids(0, maxContainers - 1) } as unknown as SubUserAccount
  const countAfter = (addedUuids: string[], removedUuids: string[] = []): number =>
    planSubUserChange(account, { addedUuids, removedUuids }, caller).containerUuids.length

  it('can fill the list of containers up to its limit, even if it also removes containers', () => {
    expect(countAfter(['u0', 'new'])).to.equal(maxContainers)
    expect(countAfter(['new', 'newer'], ['u0'])).to.equal(maxContainers)
  })
  it('is refused if the list of containers would be too long', () =>
    expect(() => countAfter(['new', 'newer'])).to.throw('would have 1001 containers, at most 1000 are possible'))
})
