import { expect } from 'chai'
import { parsePublicUrl, planPublicBase } from './public-url.js'

describe('the public URL of the panel', () => {
  for (const [text, parsed] of [
    ['', ''],
    [' https://Panel.Example.com/ ', 'https://panel.example.com'],
    ['https://panel.example.com:443', 'https://panel.example.com'],
    ['http://203.0.113.7:8080', 'http://203.0.113.7:8080'],
    ['https://[2001:db8::7]:8443', 'https://[2001:db8::7]:8443'],
  ] as const)
    it(`can be set to ${JSON.stringify(text)}, and is stored as ${JSON.stringify(parsed)}`, () =>
      expect(parsePublicUrl(text)).to.equal(parsed))

  for (const text of [
    'panel.example.com',
    'ftp://panel.example.com',
    'javascript:alert(1)',
    'https://',
    'https://a b',
    'https://panel.example.com/berth',
    'https://panel.example.com/?x=1',
    'https://panel.example.com/#x',
    'https://ada:pw@panel.example.com',
    'https://panel.example.com?',
    'https://panel.example.com:99999',
    'http://127.0.0.1:8080',
    'http://localhost',
    'http://[::1]:8080',
    'http://0.0.0.0',
    'http://2130706433',
  ])
    it(`cannot be set to ${text}`, () => expect(() => parsePublicUrl(text)).to.throw(/^public_url: /))

  for (const [name, facts, url, source] of [
    ['empty if neither a URL nor TLS is configured', { set: '', tls: undefined }, '', 'none'],
    [
      'the configured URL even if TLS is configured',
      { set: 'https://a.example', tls: { target: 'b.example', port: 443 } },
      'https://a.example',
      'set',
    ],
    [
      'the name in the certificate if no URL is configured',
      { set: '', tls: { target: 'b.example', port: 443 } },
      'https://b.example',
      'tls',
    ],
    [
      'the address in the certificate with the port of HTTPS if the port is not 443',
      { set: '', tls: { target: '203.0.113.7', port: 8443 } },
      'https://203.0.113.7:8443',
      'tls',
    ],
    [
      'the IPv6 address of the certificate, enclosed in square brackets',
      { set: '', tls: { target: '2001:db8::7', port: 443 } },
      'https://[2001:db8::7]',
      'tls',
    ],
    [
      'empty if the certificate is for a loopback address',
      { set: '', tls: { target: '127.0.0.1', port: 443 } },
      '',
      'none',
    ],
    ['empty if the certificate has no name', { set: '', tls: { target: '', port: 443 } }, '', 'none'],
  ] as const)
    it(`is ${name}`, () => expect(planPublicBase(facts)).to.deep.equal({ url, source }))
})
