import { expect } from 'chai'
import { isPrivateAddress, isReachableName, parseHostName } from './host-name.js'

describe('the check of host names and addresses', () => {
  for (const [text, parsed] of [
    [' Node1.Example.COM. ', 'node1.example.com'],
    ['bücher.example', 'xn--bcher-kva.example'],
    ['203.0.113.7', '203.0.113.7'],
    ['[2001:DB8::0:1]', '2001:db8::1'],
    ['2001:db8::1', '2001:db8::1'],
    ['node1', 'node1'],
    ['', undefined],
    ['203.0.113', undefined],
    ['203.0.113.256', undefined],
    ['node1:22', undefined],
    ['https://node1', undefined],
    ['user@node1', undefined],
    ['a b', undefined],
    ['-x.example', undefined],
    ["node1';reboot", undefined],
    ['$(id)', undefined],
    ['node1\nProxyCommand x', undefined],
    [`${'a'.repeat(64)}.example`, undefined],
  ] as const)
    it(parsed === undefined ? `refuses ${JSON.stringify(text)}` : `reads ${JSON.stringify(text)} as "${parsed}"`, () =>
      expect(parseHostName(text)).to.equal(parsed),
    )

  for (const host of ['127.0.0.1', '127.9.9.9', '::1', '::', '0.0.0.0', 'localhost', 'db.localhost'])
    it(`treats ${host} as unreachable from another machine`, () => expect(isReachableName(host)).to.equal(false))
  for (const host of ['169.254.1.1', 'fe80::1', '224.0.0.1', '255.255.255.255', 'ff02::1', '::ffff:7f00:1'])
    it(`treats ${host} as unreachable from another network`, () => expect(isReachableName(host)).to.equal(false))
  for (const host of ['203.0.113.7', '10.0.0.1', '2001:db8::1', 'fd00::1', 'node1', 'localhost.example.com'])
    it(`treats ${host} as reachable from another machine`, () => expect(isReachableName(host)).to.equal(true))

  it('recognizes private addresses', () => {
    const hosts = ['10.1.2.3', '172.31.0.1', '192.168.1.1', '100.64.0.1', 'fd00::1', '203.0.113.7', 'node1']
    expect(hosts.filter(isPrivateAddress)).to.deep.equal(hosts.slice(0, 5))
  })
})
