import { expect } from 'chai'
import { planAddressStep, type ShownAddress } from './plan-address-step.js'

const facts: ShownAddress = {
  own: '',
  host: '203.0.113.7',
  resolved: [],
  hostAddresses: ['203.0.113.7', '10.0.0.7', '2001:db8::7'],
  otherHosts: ['203.0.113.8'],
}
const named = { host: 'node1.example.com' }

describe('planAddressStep', () => {
  for (const [name, given, state, code] of [
    ['an address of the host', {}, 'ok', ''],
    ['another address of the host', { host: '2001:db8::7' }, 'ok', ''],
    ['a name of the host', { ...named, resolved: ['203.0.113.7'] }, 'ok', ''],
    ['no address', { host: '' }, 'failed', 'public_address_missing'],
    ['a name that does not resolve', named, 'failed', 'public_address_unresolved'],
    ['a name of loopback', { ...named, resolved: ['127.0.0.1'] }, 'failed', 'public_address_loopback'],
    ['loopback', { host: '127.0.0.1' }, 'failed', 'public_address_loopback'],
    ['the address of another host', { host: '203.0.113.8' }, 'failed', 'public_address_elsewhere'],
    ['an address of no host', { host: '203.0.113.99' }, 'failed', 'public_address_elsewhere'],
    [
      'an address in front of a private network',
      { host: '203.0.113.99', hostAddresses: ['10.0.0.7'] },
      'skipped',
      'public_address_unverified',
    ],
    ['an agent that lists no addresses', { hostAddresses: [] }, 'skipped', 'public_address_unverified'],
    [
      'the address of another host, from behind a private network',
      { host: '203.0.113.8', hostAddresses: ['10.0.0.7'] },
      'failed',
      'public_address_elsewhere',
    ],
    ['an own address of the guest', { own: '203.0.113.50', host: '' }, 'ok', ''],
    ['a mapping at loopback', { own: '127.0.0.1' }, 'failed', 'public_address_loopback'],
  ] as const)
    it(`judges ${name}`, () => expect(planAddressStep({ ...facts, ...given })).to.deep.equal({ state, code }))
})
