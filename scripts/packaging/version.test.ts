import { expect } from 'chai'
import { packageVersion } from './version.js'

describe('the version of the packages', () => {
  for (const [described, version] of [
    ['', '0.1.0+812.g1a2b3c4'],
    ['v0.2.0-0-g1a2b3c4', '0.2.0'],
    ['v0.2.0-5-g1a2b3c4', '0.2.0+5.g1a2b3c4'],
    ['v0.3.0-rc.1-0-g1a2b3c4', '0.3.0~rc.1'],
  ] as const)
    it(`is ${version} for ${described ? `the git description ${described}` : 'a checkout without tags'}`, () => {
      expect(packageVersion(described, '0.1.0', '812.g1a2b3c4')).to.equal(version)
    })

  for (const described of ['release-0-gabc', 'v1-0-gabc', 'v1.2.3'])
    it(`is refused for the malformed git description ${described}`, () => {
      expect(() => packageVersion(described, '0.1.0', '')).to.throw(RangeError, 'is not a version')
    })
})
