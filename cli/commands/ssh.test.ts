import { expect } from 'chai'
import { areReplaced, parseHostKeys } from '../consoles/host-keys.js'
import { parseSshCommand, sshArguments } from './ssh.js'

describe('berth ssh', () => {
  for (const [line, place] of [
    ['ssh -p 20001 root@192.0.2.1', { host: '192.0.2.1', port: '20001' }],
    ['ssh root@2001:db8::7', { host: '2001:db8::7', port: '22' }],
    ['', undefined],
  ] as const)
    it(`connects to ${place ? `${place.host}, port ${place.port},` : 'no address'} if the SSH command of the guest is "${line}"`, () =>
      expect(parseSshCommand(line)).to.deep.equal(place))

  it('passes the address after “--”, so that ssh does not read a leading dash as an option', () =>
    expect(sshArguments({ host: '-oProxyCommand=x', port: '22', user: 'root' }, ['id'])).to.deep.equal([
      '-p',
      '22',
      '-l',
      'root',
      '--',
      '-oProxyCommand=x',
      'id',
    ]))

  it('reads host keys from its own file, whose path may contain spaces and “%”', () =>
    expect(
      sshArguments(
        { host: '192.0.2.1', port: '22', user: 'root', keys: { areKnown: true, path: '/a b/%d', alias: 'berth-1' } },
        [],
      ).slice(0, 6),
    ).to.deep.equal([
      ...['-o', 'UserKnownHostsFile="/a b/%%d"', '-o', 'HostKeyAlias=berth-1'],
      ...['-o', 'StrictHostKeyChecking=yes'],
    ]))

  for (const [name, before, after, isRepeated] of [
    ['all host keys were replaced', ['old'], ['new', 'newer'], true],
    ['one of the host keys is still in use', ['old', 'same'], ['same', 'new'], false],
    ['the host keys are the same', ['same'], ['same'], false],
    ['no host keys were known', [], ['new'], false],
    ['the host keys cannot be read', ['old'], [], false],
  ] as const)
    it(`${isRepeated ? 'connects again' : 'does not connect again'} if ${name}`, () =>
      expect(areReplaced(before, after)).to.equal(isRepeated))

  it('accepts only public keys from the host key files of the guest', () =>
    expect(
      parseHostKeys('ssh-ed25519 AAAA root@web1\necdsa-sha2-nistp256 BBB=\n* ssh-rsa CCC\nssh-rsa D;D x\n'),
    ).to.deep.equal(['ssh-ed25519 AAAA', 'ecdsa-sha2-nistp256 BBB=']))
})
