import { expect } from 'chai'
import { parseAddress, parseAddressRange, parseCidrOrAddress } from './addresses.js'

describe('the parser of addresses', () => {
  for (const [text, canonical] of [
    ['192.0.2.1', '192.0.2.1'],
    ['2001:DB8:0:0:0::1', '2001:db8::1'],
    ['::', '::'],
  ] as const)
    it(`reads the address ${text} as ${canonical}`, () => expect(parseAddress(text)?.text).to.equal(canonical))

  for (const text of ['', '1.2.3', '010.0.0.1', '1.2.3.4 ', 'fe80::1%eth0', '1.2.3.4/32', '1.2.3.4-1.2.3.5', 'x'])
    it(`rejects ${JSON.stringify(text)} as an address`, () => expect(parseAddress(text)).to.equal(undefined))

  for (const [text, canonical, first, last] of [
    ['10.1.2.3/8', '10.0.0.0/8', 0x0a000000n, 0x0affffffn],
    ['10.1.2.3/32', '10.1.2.3', 0x0a010203n, 0x0a010203n],
    ['0.0.0.0/0', '0.0.0.0/0', 0n, 0xffffffffn],
    ['2001:db8::5/127', '2001:db8::4/127', (0x20010db8n << 96n) | 4n, (0x20010db8n << 96n) | 5n],
    ['2001:db8::5/128', '2001:db8::5', (0x20010db8n << 96n) | 5n, (0x20010db8n << 96n) | 5n],
    ['10.0.0.1-10.0.0.9', '10.0.0.1-10.0.0.9', 0x0a000001n, 0x0a000009n],
    [' 10.0.0.1 - 10.0.0.1 ', '10.0.0.1', 0x0a000001n, 0x0a000001n],
    ['::1-::ff', '::1-::ff', 1n, 255n],
  ] as const)
    it(`reads the range "${text}" as ${canonical}`, () =>
      expect(parseAddressRange(text)).to.deep.include({ text: canonical, first, last }))

  for (const text of [
    '10.0.0.0/33',
    '::/129',
    '10.0.0.0/',
    '10.0.0.0/8/8',
    '10.0.0.0/+8',
    '/8',
    '10.0.0.9-10.0.0.1',
    '10.0.0.1-::1',
    '10.0.0.1-',
    '-10.0.0.1',
    '10.0.0.1-10.0.0.2-10.0.0.3',
    '10.0.0.0/8-10.0.0.1',
    '10.0.\n0.1',
    '10.0.0.1;flush ruleset',
    'localhost',
  ])
    it(`rejects ${JSON.stringify(text)} as a range`, () => expect(parseAddressRange(text)?.text).to.equal(undefined))

  it('rejects a range where an address or a CIDR is required', () =>
    expect(parseCidrOrAddress('10.0.0.1-10.0.0.2')).to.equal(undefined))
})
