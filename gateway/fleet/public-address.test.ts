import { expect } from 'chai'
import { planPublicAddress, type AddressFacts } from './public-address.js'

const facts: AddressFacts = { set: '', ipv4: '', ipv6: '', agentAddress: '127.0.0.1:7443' }

describe('the derivation of a host’s public address', () => {
  for (const [name, given, host, source] of [
    ['nothing if the agent is only reachable at loopback', {}, '', 'none'],
    ['the configured address', { set: 'node1.example.com', ipv4: '203.0.113.7' }, 'node1.example.com', 'set'],
    ['public IPv4 addresses before IPv6 ones', { ipv4: '203.0.113.7', ipv6: '2001:db8::7' }, '203.0.113.7', 'guess'],
    ['a public IPv6 before a private IPv4 address', { ipv4: '10.0.0.7', ipv6: '2001:db8::7' }, '2001:db8::7', 'guess'],
    ['the address of the agent', { agentAddress: '198.51.100.9:7443' }, '198.51.100.9', 'guess'],
    ['the name of the agent', { agentAddress: 'Node2.example.com:7443' }, 'node2.example.com', 'guess'],
    ['an IPv6 address of the agent', { agentAddress: '[2001:db8::9]:7443' }, '2001:db8::9', 'guess'],
    [
      'the agent’s public address before a reported private one',
      { ipv4: '10.0.0.7', agentAddress: '198.51.100.9:1' },
      '198.51.100.9',
      'guess',
    ],
    ['a private address if no other is known', { ipv4: '10.0.0.7' }, '10.0.0.7', 'guess'],
    ['no reported loopback addresses', { ipv4: '127.0.0.1', ipv6: '::1' }, '', 'none'],
    ['no reported addresses that are invalid', { ipv4: '$(reboot)', ipv6: '-oProxyCommand=x' }, '', 'none'],
    ['no agent’s address that is localhost', { agentAddress: 'localhost:7443' }, '', 'none'],
  ] as const)
    it(`uses ${name}`, () => expect(planPublicAddress({ ...facts, ...given })).to.deep.equal({ host, source }))
})
