import { expect } from 'chai'
import { parseCurrentLogin } from './shadow-field.js'

describe('the login of root that the agent reads from a guest', () => {
  for (const [name, field, kept] of [
    ['a SHA-512 hash', '$6$rounds=5000$salt$aB./', '$6$rounds=5000$salt$aB./'],
    ['a yescrypt hash', '$y$j9T$salt$hash', '$y$j9T$salt$hash'],
    ['the hash of a locked account', '!$6$salt$hash', '!$6$salt$hash'],
    ['an account without a password', '*', '*'],
    ['an empty password (which would let anybody log in)', '', '*'],
    ['a hash field with a line break', 'a\nroot2', '*'],
    ['a hash field with a colon', 'a:0:0', '*'],
    ['a hash field that is too long', 'x'.repeat(256), '*'],
  ] as const)
    it(`has the password hash ${kept} for ${name}`, () =>
      expect(parseCurrentLogin(field, '').passwordHash).to.equal(kept))

  it('contains SSH keys with their options, and omits lines that sshd ignores', () => {
    const text = 'ssh-ed25519 AAAA a\r\n\n# comment\n  restrict ssh-rsa BBBB\nx\0y\nlast'
    expect(parseCurrentLogin('*', text).authorizedKeys).to.deep.equal([
      'ssh-ed25519 AAAA a',
      'restrict ssh-rsa BBBB',
      'last',
    ])
  })
})
