import { expect } from 'chai'
import { nameOf, planInherited, type ServiceEnvironment } from './plan-inherited.js'

describe('sockets that systemd passes to the gateway', () => {
  for (const [title, environment, expected] of [
    ['do not exist if systemd did not start the gateway', {}, []],
    [
      'are used if LISTEN_PID is the id of this process',
      { LISTEN_PID: '7', LISTEN_FDS: '2', LISTEN_FDNAMES: '..,80:127.0.0.1,8080' },
      [
        ['..,80', 3],
        ['127.0.0.1,8080', 4],
      ],
    ],
    [
      'are ignored if LISTEN_PID is the id of another process',
      { LISTEN_PID: '6', LISTEN_FDS: '1', LISTEN_FDNAMES: '..,80' },
      [],
    ],
    [
      'are used only up to the number in LISTEN_FDS',
      { LISTEN_PID: '7', LISTEN_FDS: '1', LISTEN_FDNAMES: 'a:b' },
      [['a', 3]],
    ],
  ] as [string, ServiceEnvironment, [string, number][]][])
    it(title, () => expect([...planInherited(environment, 7)]).to.deep.equal(expected))

  it('have names that consist of address and port, with dots instead of colons', () => {
    expect([nameOf('::', 443), nameOf('127.0.0.1', 8080), nameOf('2001:db8::1', 80)]).to.deep.equal([
      '..,443',
      '127.0.0.1,8080',
      '2001.db8..1,80',
    ])
  })
})
