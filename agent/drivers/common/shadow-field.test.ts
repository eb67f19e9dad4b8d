import { expect } from 'chai'
import { parseCurrentLogin } from './shadow-field.js'

describe('parseCurrentLogin', () => {
  for (const [name, field, kept] of [
    ['SHA-512', '$6$rounds=5000$salt$aB./', '$6$rounds=5000$salt$aB./'],
    ['yescrypt', '$y$j9T$salt$hash', '$y$j9T$salt$hash'],
    ['a locked account', '!$6$salt$hash', '!$6$salt$hash'],
    ['no password', '*', '*'],
    ['an empty password, which would let anybody in', '', '*'],
    ['a line break', 'a\nroot2', '*'],
    ['a colon', 'a:0:0', '*'],
    ['no end', 'x'.repeat(256), '*'],
  ] as const)
    it(`reads ${name}`, () => expect(parseCurrentLogin(field, '').passwordHash).to.equal(kept))

  it('reads the lines of keys with their options, and omits all that sshd skips', () => {
    const text = 'ssh-ed25519 AAAA a\r\n\n# comment\n  restrict ssh-rsa BBBB\nx\0y\nlast'
    expect(parseCurrentLogin('*', text).authorizedKeys).to.deep.equal([
      'ssh-ed25519 AAAA a',
      'restrict ssh-rsa BBBB',
      'last',
    ])
  })
})
