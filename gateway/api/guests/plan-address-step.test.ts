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

describe('the check of the address that customers use to connect', () => {
  for (const [name, given, state, code] of [
    ['accepts a public IPv4 address of the host', {}, 'ok', ''],
    ['accepts a public IPv6 address of the host', { host: '2001:db8::7' }, 'ok', ''],
    ['accepts a name that resolves to an address of the host', { ...named, resolved: ['203.0.113.7'] }, 'ok', ''],
    ['fails if the host has no public address', { host: '' }, 'failed', 'public_address_missing'],
    ['fails for a name that does not resolve', named, 'failed', 'public_address_unresolved'],
    [
      'fails for a name that resolves to 127.0.0.1',
      { ...named, resolved: ['127.0.0.1'] },
      'failed',
      'public_address_loopback',
    ],
    ['fails for a loopback address', { host: '127.0.0.1' }, 'failed', 'public_address_loopback'],
    ['fails for the address of another host', { host: '203.0.113.8' }, 'failed', 'public_address_elsewhere'],
    ['fails for an address that belongs to no host', { host: '203.0.113.99' }, 'failed', 'public_address_elsewhere'],
    [
      'is skipped for a public address if the host has only private addresses',
      { host: '203.0.113.99', hostAddresses: ['10.0.0.7'] },
      'skipped',
      'public_address_unverified',
    ],
    ['is skipped if the agent reports no addresses', { hostAddresses: [] }, 'skipped', 'public_address_unverified'],
    [
      'fails for another host’s address even if the host of the guest has only private addresses',
      { host: '203.0.113.8', hostAddresses: ['10.0.0.7'] },
      'failed',
      'public_address_elsewhere',
    ],
    ['accepts an address of the guest itself', { own: '203.0.113.50', host: '' }, 'ok', ''],
    ['fails for a mapping at a loopback address', { own: '127.0.0.1' }, 'failed', 'public_address_loopback'],
  ] as const)
    it(name, () => expect(planAddressStep({ ...facts, ...given })).to.deep.equal({ state, code }))
})
