import { expect } from 'chai'
import { relyingPartyOf } from './relying-party.js'

describe('the relying party of passkeys', () => {
  const at = (host: string, secure = true) => ({ headers: { host }, secure })
  for (const [name, publicUrl, page, expected] of [
    ['is the public URL', 'https://panel.example.com', at('10.0.0.1'), 'panel.example.com https://panel.example.com'],
    ['has no port', 'https://p.example:8443', at('p.example:8443'), 'p.example https://p.example:8443'],
    ['is the address in the browser if no URL is set', '', at('localhost:80', false), 'localhost http://localhost'],
  ] as const)
    it(name, () => {
      const { id, origin } = relyingPartyOf(publicUrl, page)
      expect(`${id} ${origin}`).to.equal(expected)
    })

  for (const [publicUrl, host] of [
    ['https://192.0.2.1', 'panel.example.com'],
    ['https://[2001:db8::1]', 'panel.example.com'],
    ['', '192.0.2.1:8080'],
    ['', ''],
  ] as const)
    it(`does not exist for the URL "${publicUrl}" and the host "${host}"`, () =>
      expect(() => relyingPartyOf(publicUrl, at(host))).to.throw('need a public URL with a DNS name'))
})
