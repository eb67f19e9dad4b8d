import { expect } from 'chai'
import { sourceOf } from './source-address.js'

describe('the source address under which requests are counted', () => {
  for (const [address, source] of [
    ['192.0.2.1', '192.0.2.1'],
    ['::ffff:192.0.2.1', '192.0.2.1'],
    ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2::/64'],
    ['2001:db8::1', '2001:db8:0:0::/64'],
    ['2001:db8::2', '2001:db8:0:0::/64'],
    ['2001:db8:0:1::2', '2001:db8:0:1::/64'],
    ['2001:db8:1::', '2001:db8:1:0::/64'],
    ['fe80::1%eth0', 'fe80:0:0:0::/64'],
    ['::1', '0:0:0:0::/64'],
    ['', ''],
  ] as const)
    it(`is "${source}" for the address "${address}"`, () => expect(sourceOf(address)).to.equal(source))
})
