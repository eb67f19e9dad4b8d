import { expect } from 'chai'
import { parseSshCommand, sshArguments } from './ssh.js'

describe('the address for berth ssh', () => {
  for (const [line, place] of [
    ['ssh -p 20001 root@192.0.2.1', { host: '192.0.2.1', port: '20001' }],
    ['ssh root@2001:db8::7', { host: '2001:db8::7', port: '22' }],
    ['', undefined],
  ] as const)
    it(`is ${place ? `${place.host}, port ${place.port},` : 'unknown'} for the SSH command "${line}" of the guest`, () =>
      expect(parseSshCommand(line)).to.deep.equal(place))

  it('follows “--”, so that ssh does not read an address with a leading dash as an option', () =>
    expect(sshArguments({ host: '-oProxyCommand=x', port: '22', user: 'root' }, ['id'])).to.deep.equal([
      '-p',
      '22',
      '-l',
      'root',
      '--',
      '-oProxyCommand=x',
      'id',
    ]))
})
