import { expect } from 'chai'
import { localUrl, parseUrl } from './connection.js'

describe('the URL of a gateway', () => {
  for (const [text, url] of [
    ['https://panel.example.com/', 'https://panel.example.com'],
    ['https://panel.example.com/api/v1/', 'https://panel.example.com'],
    ['http://[::1]:8080', 'http://[::1]:8080'],
    ['https://example.com/berth/', 'https://example.com/berth'],
  ] as const)
    it(`is ${url} if the user enters ${text}`, () => expect(parseUrl(text)).to.equal(url))

  for (const text of [
    'panel.example.com',
    'ftp://example.com',
    'https://user:key@example.com',
    'https://example.com/?a=1',
  ])
    it(`cannot be ${text}`, () => expect(() => parseUrl(text)).to.throw(text))

  for (const [config, url] of [
    [undefined, 'http://127.0.0.1:8080'],
    ['', 'http://127.0.0.1:8080'],
    ['listen: 0.0.0.0:9000', 'http://127.0.0.1:9000'],
    ['listen: "[::]:9000"', 'http://[::1]:9000'],
    ['listen: 192.0.2.1:80', 'http://192.0.2.1:80'],
  ] as const)
    it(`is ${url} for the gateway of this machine with ${config === undefined ? 'no configuration' : `the configuration “${config}”`}`, async () =>
      expect(await localUrl(config)).to.equal(url))
})
