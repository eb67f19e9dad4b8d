import { expect } from 'chai'
import { cookieHeader, readCookie } from './cookies.js'

describe('the handling of the session cookie', () => {
  for (const [what, cookie, secure, value] of [
    ['finds no session cookie if the request has no cookies', undefined, false, undefined],
    ['reads the only cookie of the request', 'berth=abc', false, 'abc'],
    ['reads the session cookie among other cookies', 'a=1; berth=abc;b=2', false, 'abc'],
    ['finds no session cookie if only a cookie with a longer name was sent', 'xberth=abc', false, undefined],
    ['reads a session cookie that was sent twice with the same value', 'berth=abc; berth=abc', false, 'abc'],
    ['finds no session cookie if it was sent twice with different values', 'berth=abc; berth=def', false, undefined],
    ['ignores a session cookie without the prefix __Host- under TLS', 'berth=abc', true, undefined],
    ['reads a session cookie with the prefix __Host- under TLS', '__Host-berth=abc', true, 'abc'],
    ['ignores a session cookie with the prefix __Host- without TLS', '__Host-berth=abc', false, undefined],
    [
      'prefers, under TLS, the session cookie with the prefix __Host- to a session cookie without this prefix',
      'berth=x; __Host-berth=abc',
      true,
      'abc',
    ],
    ['finds no session cookie if only the device cookie was sent', 'berth-device=abc', false, undefined],
  ] as const)
    it(what, () => {
      expect(readCookie(cookie === undefined ? {} : { cookie }, 'berth', secure)).to.equal(value)
    })

  it('creates a cookie that browsers send only to the gateway, and only for its own pages', () => {
    expect(cookieHeader('berth', 'x', { secure: true, seconds: 5 })).to.equal(
      '__Host-berth=x; Path=/; HttpOnly; SameSite=Strict; Secure; Max-Age=5',
    )
    expect(cookieHeader('berth', 'x', { secure: false })).to.equal('berth=x; Path=/; HttpOnly; SameSite=Strict')
  })
})
