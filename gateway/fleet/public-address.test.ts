import { expect } from 'chai'
import { planPublicAddress, type AddressFacts } from './public-address.js'

const facts: AddressFacts = { set: '', ipv4: '', ipv6: '', agentAddress: '127.0.0.1:7443' }

describe('the derivation of a host’s public address', () => {
  for (const [name, given, host, source] of [
    ['no address if the agent is only reachable at a loopback address', {}, '', 'none'],
    ['the configured address', { set: 'node1.example.com', ipv4: '203.0.113.7' }, 'node1.example.com', 'set'],
    [
      'a public IPv4 address rather than a public IPv6 address',
      { ipv4: '203.0.113.7', ipv6: '2001:db8::7' },
      '203.0.113.7',
      'guess',
    ],
    [
      'a public IPv6 address rather than a private IPv4 address',
      { ipv4: '10.0.0.7', ipv6: '2001:db8::7' },
      '2001:db8::7',
      'guess',
    ],
    [
      'the IPv4 address at which the agent is reachable',
      { agentAddress: '198.51.100.9:7443' },
      '198.51.100.9',
      'guess',
    ],
    [
      'the name by which the agent is reachable',
      { agentAddress: 'Node2.example.com:7443' },
      'node2.example.com',
      'guess',
    ],
    [
      'the IPv6 address at which the agent is reachable',
      { agentAddress: '[2001:db8::9]:7443' },
      '2001:db8::9',
      'guess',
    ],
    [
      'the public address at which the agent is reachable, not a private address that it reports',
      { ipv4: '10.0.0.7', agentAddress: '198.51.100.9:1' },
      '198.51.100.9',
      'guess',
    ],
    ['a private address if no other address is known', { ipv4: '10.0.0.7' }, '10.0.0.7', 'guess'],
    ['no address if the host reports only loopback addresses', { ipv4: '127.0.0.1', ipv6: '::1' }, '', 'none'],
    [
      'no address if the host reports only invalid addresses',
      { ipv4: '$(reboot)', ipv6: '-oProxyCommand=x' },
      '',
      'none',
    ],
    ['no address if the agent is only reachable by the name localhost', { agentAddress: 'localhost:7443' }, '', 'none'],
  ] as const)
    it(`uses ${name}`, () => expect(planPublicAddress({ ...facts, ...given })).to.deep.equal({ host, source }))
})
