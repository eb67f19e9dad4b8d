import { expect } from 'chai'
import type { Principal } from '../access/principal.js'
import type { SubUserAccount } from '../accounts/account-record.js'
import { checkAccountLimit, mostSubUsers } from './plan-sub-user.js'

describe('number of sub-users of a caller', () => {
  const caller = (root: string, isAdmin = false): Principal =>
    ({ kind: 'session', root, accountKind: isAdmin ? 'admin' : 'sub_user' }) as unknown as Principal
  const accounts = (count: number, root?: string): SubUserAccount[] =>
    Array.from({ length: count }, () => ({ ...(root && { root }) }) as SubUserAccount)
  const refusal = (all: SubUserAccount[], by: Principal): string => {
    try {
      checkAccountLimit(all, by)
      return ''
    } catch (error) {
      return (error as { code: string }).code
    }
  }

  for (const [what, all, by, code] of [
    ['a limited caller below its limit', accounts(mostSubUsers.limited - 1, 'key:2'), caller('key:2'), ''],
    [
      ...['a limited caller at its limit', accounts(mostSubUsers.limited, 'key:2'), caller('key:2')],
      'account_limit_reached',
    ],
    ['another caller', accounts(mostSubUsers.limited, 'key:2'), caller('key:3'), ''],
    ['an administrator', accounts(mostSubUsers.limited), caller('admin:1', true), ''],
    [
      'an administrator, of very many',
      accounts(mostSubUsers.others),
      caller('admin:1', true),
      'account_limit_reached',
    ],
  ] as [string, SubUserAccount[], Principal, string][])
    it(`${code === '' ? 'lets through' : 'refuses'} ${what}`, () => expect(refusal(all, by)).to.equal(code))
})
