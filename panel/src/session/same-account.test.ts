import { expect } from 'chai'
import { isSameAccount } from './same-account.ts'

describe('the login in place of an ended session', () => {
  const ada = { kind: 'admin', username: 'ada' } as const
  for (const [name, other, same] of [
    ['continues with the same account', { kind: 'admin', username: 'ada' }, true],
    ['is another account if the name differs', { kind: 'admin', username: 'bob' }, false],
    ['is another account if a customer has the name of an administrator', { kind: 'sub_user', username: 'ada' }, false],
  ] as const)
    it(name, () => expect(isSameAccount(ada, other)).to.equal(same))
})
