import { expect } from 'chai'
import { hostNamesOf } from './guest-rules.js'

describe('hostNamesOf', () => {
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
    it(`of ${name} are ${hostname}${fqdn ? ` and ${fqdn}` : ''}`, () =>
      expect(hostNamesOf(name)).to.deep.equal({ hostname, ...(fqdn ? { fqdn } : {}) }))
})
