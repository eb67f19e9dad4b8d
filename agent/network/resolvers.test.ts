import { expect } from 'chai'
import { chooseResolvers } from './resolvers.js'

describe('the DNS resolvers of guests', () => {
  for (const [name, text, servers] of [
    [
      'are the host’s resolvers that guests can reach',
      'search x\nnameserver 192.0.2.1\nnameserver 2001:db8::1\n',
      ['192.0.2.1', '2001:db8::1'],
    ],
    [
      'exclude loopback and link-local IPv6 addresses',
      'nameserver 127.0.0.53\nnameserver fe80::1\nnameserver ::1',
      ['9.9.9.9', '1.1.1.1'],
    ],
    [
      'are at most three',
      'nameserver 192.0.2.1\nnameserver 192.0.2.2\nnameserver 192.0.2.3\nnameserver 192.0.2.4',
      ['192.0.2.1', '192.0.2.2', '192.0.2.3'],
    ],
    ['include a cloud’s own link-local IPv4 resolver', 'nameserver 169.254.169.254', ['169.254.169.254']],
    [
      'are public resolvers if resolv.conf contains no resolver',
      '# nothing\nnameserver example.org\n',
      ['9.9.9.9', '1.1.1.1'],
    ],
  ] as const)
    it(name, () => expect(chooseResolvers([text])).to.deep.equal(servers))

  it('are the upstream servers if the host uses a local resolver', () => {
    const upstream = 'nameserver 168.63.129.16\n'
    expect(chooseResolvers(['nameserver 127.0.0.53\n', upstream])).to.deep.equal(['168.63.129.16'])
    expect(chooseResolvers(['nameserver 192.0.2.1\n', upstream])).to.deep.equal(['192.0.2.1'])
  })
})
