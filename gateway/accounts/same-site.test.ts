import { expect } from 'chai'
import { isSameSite } from './same-site.js'

const host = 'panel.test:8080'
const header = (name: string, value: string | undefined): string =>
  value === undefined ? `no ${name}` : `${name} "${value}"`
const verdict = (same: boolean | undefined): string => {
  if (same === undefined) return 'makes no decision about a request'
  return same ? 'accepts a request' : 'rejects a request'
}

describe('the same-site check of a request to panel.test:8080', () => {
  for (const [origin, site, secure, same] of [
    [undefined, undefined, false, undefined],
    ['http://panel.test:8080', undefined, false, true],
    ['https://panel.test:8080', undefined, false, true],
    ['https://panel.test:8080', undefined, true, true],
    ['http://panel.test:8080', undefined, true, false],
    ['http://panel.test', undefined, false, false],
    ['http://panel.test:8081', undefined, false, false],
    ['http://evil.test:8080', undefined, false, false],
    ['http://panel.test.evil.test:8080', undefined, false, false],
    ['http://panel.test:8080/', undefined, false, false],
    ['http://x@panel.test:8080', undefined, false, false],
    ['null', undefined, false, false],
    ['', undefined, false, false],
    ['ftp://panel.test:8080', undefined, false, false],
    [undefined, 'same-origin', false, true],
    [undefined, 'same-site', false, false],
    [undefined, 'cross-site', false, false],
    [undefined, 'none', false, false],
    ['http://panel.test:8080', 'same-origin', false, true],
    ['http://panel.test:8080', 'cross-site', false, false],
    ['http://evil.test', 'same-origin', false, false],
  ] as const)
    it(`${verdict(same)} with ${header('Origin', origin)} and ${header('Sec-Fetch-Site', site)}${secure ? ' over TLS' : ''}`, () => {
      const headers = {
        host,
        ...(origin !== undefined && { origin }),
        ...(site && { 'sec-fetch-site': site }),
      }
      expect(isSameSite(headers, secure)).to.equal(same)
    })

  it('accepts, over TLS, an Origin without a port if the Host header has no port or port 443', () => {
    expect(isSameSite({ host: 'panel.test', origin: 'https://panel.test' }, true)).to.equal(true)
    expect(isSameSite({ host: 'panel.test:443', origin: 'https://panel.test' }, true)).to.equal(true)
    expect(isSameSite({ origin: 'https://panel.test' }, true)).to.equal(false)
  })
})
