import { expect } from 'chai'
import { failedField } from '../test/support/failed-field.js'
import { checkSshPassword, hostNamesOf } from './guest-rules.js'

describe('the host name and the FQDN of a guest name', () => {
  for (const [name, hostname, fqdn] of [
    ['web', 'web'],
    ['Web_1', 'web-1'],
    ['web.example.com', 'web', 'web.example.com'],
    ['WEB.Example.COM', 'web', 'web.example.com'],
    ['a_b.example.com', 'a-b', 'a-b.example.com'],
    ['web.local', 'web', 'web.local'],
    ['v1.2', 'v1-2'],
    ['10.0.0.1x', '10', '10.0.0.1x'],
    ['web..com', 'web--com'],
    ['web._.com', 'web---com'],
    ['web.', 'web'],
    ['a-.example.com', 'a', 'a.example.com'],
  ] as const)
    it(`are ${hostname}${fqdn ? ` and ${fqdn}` : ' without an FQDN'} for ${name}`, () =>
      expect(hostNamesOf(name)).to.deep.equal({ hostname, ...(fqdn ? { fqdn } : {}) }))
})

describe('passwords of guests', () => {
  for (const password of ['letters1', 'x1'.repeat(32), '!"#$%&/()=a1'])
    it(`are accepted if they fulfill all rules, for example ${password}`, () => checkSshPassword(password))

  for (const password of [
    'short1',
    'lettersonly',
    '12345678',
    'with space 1',
    'x1'.repeat(33),
    'a1b2c3d\n',
    'größe123',
  ])
    it(`are refused if they break a rule, for example ${JSON.stringify(password)}`, () =>
      expect(failedField(() => checkSshPassword(password, 'password'))).to.equal('password'))
})
