import { expect } from 'chai'
import { generateSync } from 'otplib'
import type { AdminAccount } from './account-record.js'
import { TwoFactor } from './two-factor.js'

const twoFactor = new TwoFactor(Buffer.alloc(32, 1))

describe('a second factor', () => {
  const secret = twoFactor.makeSecret()
  const { totp, codes } = twoFactor.begin(twoFactor.seal(secret, 3), 0)
  const account: AdminAccount = {
    kind: 'admin',
    id: 3,
    username: 'ada',
    passwordHash: 'x',
    disabled: false,
    generation: 1,
    createdAtMs: 1,
    totp,
  }
  const codeNow = () => generateSync({ secret })

  it('can be decrypted only for its own account and with the secret of the installation', () => {
    expect(totp.secret).to.not.include(secret)
    expect(() => twoFactor.open(totp.secret, 4)).to.throw('a stored secret cannot be decrypted')
    expect(() => new TwoFactor(Buffer.alloc(32, 2)).open(totp.secret, 3)).to.throw(
      'a stored secret cannot be decrypted',
    )
  })

  it('rejects the last accepted code, and all older codes', () => {
    const used = twoFactor.use(account, { code: codeNow() })!.totp!
    expect(used.lastStep).to.be.closeTo(Date.now() / 30_000, 2)
    expect(twoFactor.use({ ...account, totp: used }, { code: codeNow() })).to.equal(undefined)
    const ahead = { ...totp, lastStep: used.lastStep + 1000 } // as if the clock had been set back
    expect(twoFactor.use({ ...account, totp: ahead }, { code: codeNow() })).to.equal(undefined)
  })

  it('accepts each recovery code only once', () => {
    const [first = '', second = ''] = codes
    const after = twoFactor.use(account, { recoveryCode: ` ${first.toUpperCase()} ` })!
    expect(after.totp?.recovery).to.have.length(9)
    expect(twoFactor.use(after, { recoveryCode: first })).to.equal(undefined)
    expect(twoFactor.use(after, { recoveryCode: second })?.totp?.recovery).to.have.length(8)
  })

  for (const given of [{ code: '' }, { code: '000 00' }, { code: '１２３４５６' }, { recoveryCode: '' }])
    it(`rejects the malformed input ${JSON.stringify(given)}`, () =>
      expect(twoFactor.use(account, given)).to.equal(undefined))

  it('rejects all codes before the second factor is set up for the account', () => {
    const { totp: _, ...without } = account
    expect(twoFactor.use(without, { code: codeNow() })).to.equal(undefined)
  })
})
