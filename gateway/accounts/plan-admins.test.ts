import { expect } from 'chai'
import type { AdminAccount } from './account-record.js'
import { checkAdminLeft } from './plan-admins.js'

const admin = (id: number, fields: Partial<AdminAccount> = {}): AdminAccount => ({
  kind: 'admin',
  id,
  username: `a${id}`,
  passwordHash: 'x',
  disabled: false,
  generation: 1,
  createdAtMs: 1,
  ...fields,
})
const disabled = { disabled: true }
const invited = { passwordHash: '' }
const operator = { role: 'operator' } as const

describe('the removal of an administrator', () => {
  for (const [what, all, without, left] of [
    ['is rejected for the only administrator', [admin(1)], admin(1), false],
    ['is accepted if another administrator is left', [admin(1), admin(2)], admin(1), true],
    ['is rejected if only a disabled administrator would be left', [admin(1), admin(2, disabled)], admin(1), false],
    ['is rejected if only an invited administrator would be left', [admin(1), admin(2, invited)], admin(1), false],
    [
      'is rejected if only administrators with the role "operator" would be left',
      [admin(1), admin(2, operator)],
      admin(1),
      false,
    ],
    ['is accepted for an administrator with the role "operator"', [admin(1, operator)], admin(1, operator), true],
    ['is accepted for a disabled administrator', [admin(1), admin(2, disabled)], admin(2, disabled), true],
    ['is accepted for an invited administrator', [admin(1, invited)], admin(1, invited), true],
  ] as const)
    it(what, () => {
      const check = () => checkAdminLeft(all, without)
      if (left) expect(check).to.not.throw()
      else expect(check).to.throw('the last full administrator')
    })
})
