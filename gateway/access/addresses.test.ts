import { expect } from 'chai'
import fc from 'fast-check'
import { AddressSet, containsAddresses, parseAddressList } from './addresses.js'

describe('the parser of address lists', () => {
  for (const [text, entries] of [
    ['', []],
    ['10.0.0.1', ['10.0.0.1']],
    [' 10.0.0.1 ,\n2001:DB8::1\r\n,,10.0.0.0/8', ['10.0.0.1', '2001:db8::1', '10.0.0.0/8']],
    ['10.0.0.5/24', ['10.0.0.0/24']],
    ['::ffff:10.0.0.1', ['10.0.0.1']],
    ['::ffff:a00:1', ['10.0.0.1']],
    ['::ffff:10.0.0.0/120', ['10.0.0.0/24']],
    ['10.0.0.1,10.0.0.1', ['10.0.0.1']],
    ['0.0.0.0/0', ['0.0.0.0/0']],
    ['::/0', ['::/0']],
  ] as const)
    it(`reads ${JSON.stringify(text)} as the list ${JSON.stringify(entries)}`, () =>
      expect(parseAddressList('f', text)).to.deep.equal(entries))

  for (const text of [
    '1.2.3',
    '010.0.0.1',
    '10.0.0.1/33',
    '::1/129',
    '10.0.0.1/',
    '10.0.0.1/-1',
    '10.0.0.1/8/8',
    '10.0.0.1/ 8',
    'fe80::1%eth0',
    'localhost',
    '10.0.0.1 10.0.0.2',
    '10.0.0.1-10.0.0.9',
    "'; flush ruleset",
    Array.from({ length: 257 }, (_, i) => `10.0.${i >> 8}.${i & 255}`).join(','),
  ])
    it(`rejects ${JSON.stringify(text.slice(0, 30))}`, () => expect(() => parseAddressList('f', text)).to.throw(/^f: /))

  it('creates a list that contains the addresses of its networks, even if they are written in IPv4-mapped form', () => {
    const set = new AddressSet(parseAddressList('f', '10.0.0.0/24,192.0.2.7,2001:db8::/32'))
    for (const inside of ['10.0.0.255', '192.0.2.7', '2001:db8:ffff::1', '::ffff:10.0.0.1'])
      expect(set.has(inside), inside).to.equal(true)
    for (const outside of ['10.0.1.0', '192.0.2.8', '2001:db9::', 'garbage', ''])
      expect(set.has(outside), outside).to.equal(false)
  })

  for (const [entries, inside, outside] of [
    ['::/0', ['::1', '2001:db8::1'], ['10.0.0.1', '::ffff:10.0.0.1', '::ffff:a00:1']],
    ['0.0.0.0/0', ['10.0.0.1', '::ffff:10.0.0.1', '::ffff:a00:1'], ['::1', '2001:db8::1', '::']],
    ['::ffff:0:0/96', ['10.0.0.1', '::ffff:10.0.0.1'], ['::1', '2001:db8::1']],
    ['::/80', ['::1', '::10.0.0.1'], ['10.0.0.1', '::ffff:10.0.0.1']],
    ['::10.0.0.1', ['::a00:1'], ['10.0.0.1', '::ffff:10.0.0.1']],
    ['10.0.0.1', ['10.0.0.1', '::ffff:10.0.0.1'], ['::10.0.0.1', '::a00:1']],
  ] as const)
    it(`creates from "${entries}" a list that contains ${inside.join(', ')}, but not ${outside.join(', ')}`, () => {
      const set = new AddressSet(parseAddressList('f', entries))
      expect(inside.filter((address) => !set.has(address))).to.deep.equal([])
      expect(outside.filter((address) => set.has(address))).to.deep.equal([])
    })

  for (const [outer, inner, contained] of [
    ['::/0', '10.0.0.0/8', false],
    ['0.0.0.0/0', '::a00:0/120', false],
    ['10.0.0.0/25,10.0.0.128/25', '10.0.0.0/24', true],
    ['10.0.0.0/25', '10.0.0.0/24', false],
    ['0.0.0.0/0', '::1', false],
    ['10.0.0.1,10.0.0.2', '10.0.0.2', true],
    ['::/0', '2001:db8::/32', true],
  ] as const)
    it(`creates from "${outer}" a list that ${contained ? 'contains' : 'does not contain'} ${inner}`, () =>
      expect(containsAddresses(outer.split(','), inner.split(','))).to.equal(contained))

  it('rejects invalid text with an error that contains the field, and can parse its own output', () => {
    fc.assert(
      fc.property(
        fc.oneof(fc.string(), fc.ipV4(), fc.ipV6(), fc.string({ unit: fc.constantFrom(...'0123456789.:/af,\n') })),
        (text) => {
          let entries: string[]
          try {
            entries = parseAddressList('f', text)
          } catch (error) {
            return (error as Error).message.startsWith('f: ')
          }
          expect(parseAddressList('f', entries.join('\n'))).to.deep.equal(entries)
          return new AddressSet(entries) instanceof AddressSet
        },
      ),
      { numRuns: 5000 },
    )
  })
})
