import { expect } from 'chai'
import { detectHost, parseTarget } from './target.js'

describe('a certificate', () => {
  for (const [text, expected] of [
    ['panel.example', 'panel.example'],
    [' Panel.EXAMPLE. ', 'panel.example'],
    ['bücher.example', 'xn--bcher-kva.example'],
    ['192.0.2.7', '192.0.2.7'],
    ['[2001:DB8:0::7]', '2001:db8::7'],
    ['localhost', 'localhost'],
    ['a_b.example', undefined],
    ['*.example', undefined],
    ['panel.example:443', undefined],
    ['https://panel.example', undefined],
    ['a b', undefined],
    ['a..b', undefined],
    ['1.2.3.400', undefined],
    ['0x7f.1', undefined],
    ['fe80::1%eth0', undefined],
    ['a\r\nb', undefined],
    ['x@y', undefined],
    ['-a', undefined],
    [`${'a'.repeat(64)}.example`, undefined],
    ['', undefined],
    [`${'a.'.repeat(130)}b`, undefined],
  ] as const)
    it(`${expected === undefined ? 'cannot' : 'can'} be requested for ${JSON.stringify(text.slice(0, 40))}`, () => {
      if (expected === undefined) expect(() => parseTarget(text)).to.throw(/^target: /)
      else expect(parseTarget(text)).to.equal(expected)
    })

  for (const [header, expected] of [
    ['panel.example:8443', 'panel.example'],
    ['[2001:db8::7]:443', '2001:db8::7'],
    ['198.51.100.7', '198.51.100.7'],
  ] as const)
    it(`is requested for ${expected} by default if the Host header is ${header}`, () =>
      expect(detectHost(header)).to.equal(expected))

  it('is by default never requested for a loopback address or an invalid host', () => {
    for (const header of [undefined, '', 'localhost:8080', '127.0.0.1', '[::1]:80', 'a b', 'x\0y'])
      expect(detectHost(header), String(header))
        .to.match(/^(\d+\.\d+\.\d+\.\d+)?$/)
        .and.not.match(/^127\./)
  })
})
