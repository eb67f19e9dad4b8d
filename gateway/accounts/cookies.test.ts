import { expect } from 'chai'
import { cookieHeader, readCookie } from './cookies.js'

describe('cookies', () => {
  for (const [what, cookie, secure, value] of [
    ['none', undefined, false, undefined],
    ['one', 'berth=abc', false, 'abc'],
    ['one among others', 'a=1; berth=abc;b=2', false, 'abc'],
    ['another whose name ends alike', 'xberth=abc', false, undefined],
    ['the same twice', 'berth=abc; berth=abc', false, 'abc'],
    ['two that differ', 'berth=abc; berth=def', false, undefined],
    ['the plain one under TLS', 'berth=abc', true, undefined],
    ['the one of TLS', '__Host-berth=abc', true, 'abc'],
    ['the one of TLS without it', '__Host-berth=abc', false, undefined],
    ['both under TLS', 'berth=x; __Host-berth=abc', true, 'abc'],
    ['the one of a device', 'berth-device=abc', false, undefined],
  ] as const)
    it(`reads ${what}`, () => {
      expect(readCookie(cookie === undefined ? {} : { cookie }, 'berth', secure)).to.equal(value)
    })

  it('are for this host and this site only', () => {
    expect(cookieHeader('berth', 'x', { secure: true, seconds: 5 })).to.equal(
      '__Host-berth=x; Path=/; HttpOnly; SameSite=Strict; Secure; Max-Age=5',
    )
    expect(cookieHeader('berth', 'x', { secure: false })).to.equal('berth=x; Path=/; HttpOnly; SameSite=Strict')
  })
})
