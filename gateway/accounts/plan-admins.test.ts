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

describe('the last administrator', () => {
  for (const [what, all, without, left] of [
    ['stays', [admin(1)], admin(1), false],
    ['is not the one of two', [admin(1), admin(2)], admin(1), true],
    ['is the one next to a disabled one', [admin(1), admin(2, disabled)], admin(1), false],
    ['is the one next to an invited one', [admin(1), admin(2, invited)], admin(1), false],
    ['is not one that is disabled', [admin(1), admin(2, disabled)], admin(2, disabled), true],
    ['is not one that is invited', [admin(1, invited)], admin(1, invited), true],
  ] as const)
    it(what, () => {
      const check = () => checkAdminLeft(all, without)
      if (left) expect(check).to.not.throw()
      else expect(check).to.throw('the last administrator')
    })
})
