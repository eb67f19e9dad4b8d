import { expect } from 'chai'
import { checkLogin, planLoginInput } from './plan-login.js'

const machine = { hostname: 'web-1', resolvers: ['9.9.9.9', '2001:db8::1'] }
const passwordHash = `$6$salt$${'a'.repeat(86)}`

describe('planLoginInput', () => {
  for (const [name, login, text] of [
    ['nothing', {}, 'web-1\n9.9.9.9 2001:db8::1\n\n\n'],
    ['password', { passwordHash }, `web-1\n9.9.9.9 2001:db8::1\n${passwordHash}\n\n`],
    ['key', { publicKey: 'ssh-ed25519 AAAA me' }, 'web-1\n9.9.9.9 2001:db8::1\n\n=ssh-ed25519 AAAA me\n'],
  ] as const)
    it(name, () => expect(planLoginInput(machine, login)).to.equal(text))

  it('refuses what is no hash', () => {
    for (const bad of ['', 'x', `${passwordHash}:`, `${passwordHash}\n`, passwordHash.replace('a', '&')])
      expect(() => planLoginInput(machine, { passwordHash: bad })).to.throw(/is not one line/)
  })
})

describe('checkLogin', () => {
  it('takes any printable password', () => checkLogin(machine, { password: 'a:b$`"\'\\ cä' }))

  for (const [name, of, login] of [
    ['newline in the password', machine, { password: 'a\nroot2:b' }],
    ['NUL in the password', machine, { password: 'a\0' }],
    ['empty password', machine, { password: '' }],
    ['long password', machine, { password: 'a'.repeat(251) }],
    ['two keys', machine, { publicKey: 'ssh-ed25519 A\nssh-ed25519 B' }],
    ['carriage return in a key', machine, { publicKey: 'ssh-ed25519 A\r' }],
    ['host name', { ...machine, hostname: 'a b' }, {}],
    ['resolver', { ...machine, resolvers: ['9.9.9.9\noptions x'] }, {}],
  ] as const)
    it(`refuses: ${name}, without repeating it`, () => {
      expect(() => checkLogin(of, login))
        .to.throw(/is not one line/)
        .with.property('message')
        .that.does.not.match(/root2|ssh-|aaa/)
    })
})
