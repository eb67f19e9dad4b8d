import { expect } from 'chai'
import { parseSshCommand, sshArguments } from './ssh.js'

describe('the ssh command of the command line', () => {
  for (const [line, place] of [
    ['ssh -p 20001 root@192.0.2.1', { host: '192.0.2.1', port: '20001' }],
    ['ssh root@2001:db8::7', { host: '2001:db8::7', port: '22' }],
    ['', undefined],
  ] as const)
    it(`is derived from "${line}"`, () => expect(parseSshCommand(line)).to.deep.equal(place))

  it('treats a leading dash in the address as part of the address', () =>
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
