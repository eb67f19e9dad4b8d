import { expect } from 'chai'
import { cookieHeader, readCookie } from './cookies.js'

describe('the handling of cookies', () => {
  for (const [what, cookie, secure, value] of [
    ['nothing if the request has no cookies', undefined, false, undefined],
    ['the cookie with the right name', 'berth=abc', false, 'abc'],
    ['a cookie among other cookies', 'a=1; berth=abc;b=2', false, 'abc'],
    ['nothing from a cookie with a longer name', 'xberth=abc', false, undefined],
    ['a cookie that occurs twice with the same value', 'berth=abc; berth=abc', false, 'abc'],
    ['nothing if a cookie occurs twice with different values', 'berth=abc; berth=def', false, undefined],
    ['nothing from a cookie without the prefix __Host- under TLS', 'berth=abc', true, undefined],
    ['a cookie with the prefix __Host- under TLS', '__Host-berth=abc', true, 'abc'],
    ['nothing from a cookie with the prefix __Host- without TLS', '__Host-berth=abc', false, undefined],
    ['only the cookie with the prefix __Host- under TLS', 'berth=x; __Host-berth=abc', true, 'abc'],
    ['nothing if only the cookie that identifies the device was sent', 'berth-device=abc', false, undefined],
  ] as const)
    it(`reads ${what}`, () => {
      expect(readCookie(cookie === undefined ? {} : { cookie }, 'berth', secure)).to.equal(value)
    })

  it('creates cookies that browsers send only to this server and only in requests of its own pages', () => {
    expect(cookieHeader('berth', 'x', { secure: true, seconds: 5 })).to.equal(
      '__Host-berth=x; Path=/; HttpOnly; SameSite=Strict; Secure; Max-Age=5',
    )
    expect(cookieHeader('berth', 'x', { secure: false })).to.equal('berth=x; Path=/; HttpOnly; SameSite=Strict')
  })
})
