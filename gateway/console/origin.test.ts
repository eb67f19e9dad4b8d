import { expect } from 'chai'
import { mayOpen } from './origin.js'

const allowed = ['https://panel.example', 'http://127.0.0.1:9000']
const header = (name: string, value: string | undefined): string =>
  value === undefined ? `no ${name}` : `${name} "${value}"`

describe('the origin check of consoles, if https://panel.example and http://127.0.0.1:9000 are allowed', () => {
  for (const [origin, host, scheme, expected] of [
    ['http://berth.example:8080', 'berth.example:8080', 'http', true],
    ['http://BERTH.example:8080', 'Berth.Example:8080', 'http', true],
    ['https://berth.example', 'berth.example', 'https', true],
    ['https://berth.example', 'berth.example:443', 'https', true],
    ['http://berth.example', 'berth.example:80', 'http', true],
    ['http://[2001:db8::1]:8080', '[2001:db8::1]:8080', 'http', true],
    ['https://panel.example', 'berth.example', 'http', true],
    ['http://127.0.0.1:9000', '127.0.0.1:8080', 'http', true],
    // The origin has another port or scheme, a similar host name, a trailing slash, or an explicit default port.
    ['http://berth.example:8081', 'berth.example:8080', 'http', false],
    ['http://berth.example', 'berth.example:8080', 'http', false],
    ['https://berth.example:8080', 'berth.example:8080', 'http', false],
    ['http://berth.example', 'berth.example', 'https', false],
    ['https://panel.example.evil', 'berth.example', 'http', false],
    ['https://evil-panel.example', 'berth.example', 'http', false],
    ['https://panel.example/', 'berth.example', 'http', false],
    ['https://panel.example:443', 'berth.example', 'http', false],
    // The origin is absent, null, contains a user name, or is a list.
    [undefined, 'berth.example', 'http', false],
    ['null', 'berth.example', 'http', false],
    ['', 'berth.example', 'http', false],
    ['http://berth.example@evil.example', 'berth.example', 'http', false],
    ['http://evil.example@berth.example', 'berth.example', 'http', false],
    ['http://berth.example, http://evil.example', 'berth.example', 'http', false],
    // The Host header is invalid.
    ['http://a@b', 'a@b', 'http', false],
    ['http://a/b', 'a/b', 'http', false],
    ['http://', '', 'http', false],
    ['http://berth.example', undefined, 'http', false],
    ['http://null', 'null', 'http', true],
  ] as const)
    it(`${expected ? 'accepts' : 'rejects'} a request over ${scheme} with ${header('Origin', origin)} and ${header('Host', host)}`, () =>
      expect(mayOpen({ origin, host, scheme }, allowed)).to.equal(expected))
})
