import { expect } from 'chai'
import { nameOf, planInherited, type ServiceEnvironment } from './plan-inherited.js'

describe('sockets from systemd', () => {
  for (const [title, environment, expected] of [
    ['do not exist outside systemd', {}, []],
    [
      'are those of this process',
      { LISTEN_PID: '7', LISTEN_FDS: '2', LISTEN_FDNAMES: '..,80:127.0.0.1,8080' },
      [
        ['..,80', 3],
        ['127.0.0.1,8080', 4],
      ],
    ],
    ['are not those of a parent process', { LISTEN_PID: '6', LISTEN_FDS: '1', LISTEN_FDNAMES: '..,80' }, []],
    ['are not more than their number', { LISTEN_PID: '7', LISTEN_FDS: '1', LISTEN_FDNAMES: 'a:b' }, [['a', 3]]],
  ] as [string, ServiceEnvironment, [string, number][]][])
    it(title, () => expect([...planInherited(environment, 7)]).to.deep.equal(expected))

  it('have a name without colons for each address', () => {
    expect([nameOf('::', 443), nameOf('127.0.0.1', 8080), nameOf('2001:db8::1', 80)]).to.deep.equal([
      '..,443',
      '127.0.0.1,8080',
      '2001.db8..1,80',
    ])
  })
})
