import { expect } from 'chai'
import { cookieHeader, readCookie } from './cookies.js'

describe('cookies', () => {
  for (const [what, cookie, secure, value] of [
    ['none', undefined, false, undefined],
    ['one', 'berth=abc', false, 'abc'],
    ['one among others', 'a=1; berth=abc;b=2', false, 'abc'],
    ['one with a longer name', 'xberth=abc', false, undefined],
    ['the same twice', 'berth=abc; berth=abc', false, 'abc'],
    ['two different ones', 'berth=abc; berth=def', false, undefined],
    ['the plain one under TLS', 'berth=abc', true, undefined],
    ['the TLS cookie', '__Host-berth=abc', true, 'abc'],
    ['the TLS cookie without TLS', '__Host-berth=abc', false, undefined],
    ['both under TLS', 'berth=x; __Host-berth=abc', true, 'abc'],
    ['the device cookie', 'berth-device=abc', false, undefined],
  ] as const)
    it(`reads ${what}`, () => {
      expect(readCookie(cookie === undefined ? {} : { cookie }, 'berth', secure)).to.equal(value)
    })

  it('are limited to this host and this site', () => {
    expect(cookieHeader('berth', 'x', { secure: true, seconds: 5 })).to.equal(
      '__Host-berth=x; Path=/; HttpOnly; SameSite=Strict; Secure; Max-Age=5',
    )
    expect(cookieHeader('berth', 'x', { secure: false })).to.equal('berth=x; Path=/; HttpOnly; SameSite=Strict')
  })
})
