import { expect } from 'chai'
import { parsePackageVersion } from './package-list.js'

describe('the list of packages', () => {
  const list = [
    'Package: berth-agent-tools\nVersion: 9\n',
    'Package: berth-agent\nArchitecture: amd64\nVersion: 0.3.0~rc.1+5.gabc\nDescription: runs\n Version: 1\n',
    'Package: berth-runtime\nVersion: 24.1-1\n',
  ].join('\n')

  for (const [name, version] of [
    ['berth-agent', '0.3.0~rc.1+5.gabc'],
    ['berth-runtime', '24.1-1'],
    ['berth', ''],
  ] as const)
    it(`contains ${version === '' ? 'no version' : `version ${version}`} of the package ${name}`, () => {
      expect(parsePackageVersion(list, name)).to.equal(version)
    })

  it('contains no version of any package if the list is empty', () => {
    expect(parsePackageVersion('', 'berth-agent')).to.equal('')
  })
})
