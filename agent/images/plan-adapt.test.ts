import { expect } from 'chai'
import { planAdaptation, type TreeFacts } from './plan-adapt.js'

const nothing: TreeFacts = { directories: new Set(), files: new Set(), hostKeys: [], sshdConfig: '' }
const included = 'Include /etc/ssh/sshd_config.d/*.conf\nPermitRootLogin no\n'

const paths = (facts: Partial<TreeFacts>): string[] =>
  planAdaptation({ ...nothing, ...facts }).flatMap((change) => ('path' in change ? [change.path] : []))

describe('the adaptation of a foreign root file system', () => {
  for (const [name, facts, expected] of [
    ['without files', {}, ['root']],
    [
      'with systemd',
      { directories: new Set(['etc/systemd']) },
      ['etc/systemd/network', 'etc/systemd/network/00-berth.network', 'root'],
    ],
    [
      'with NetworkManager',
      { directories: new Set(['etc/NetworkManager']) },
      ['etc/NetworkManager/conf.d', 'etc/NetworkManager/conf.d/00-berth.conf', 'root'],
    ],
    ['with ifupdown', { directories: new Set(['etc/network']) }, ['etc/network/interfaces', 'root']],
    ['with wicked', { directories: new Set(['etc/sysconfig/network']) }, ['etc/sysconfig/network/ifcfg-eth0', 'root']],
    ['with a machine-id', { files: new Set(['etc/machine-id']) }, ['etc/machine-id', 'root']],
    [
      'with host keys and an init system other than systemd',
      { directories: new Set(['etc/ssh']), hostKeys: ['ssh_host_rsa_key', 'ssh_host_rsa_key.pub'] },
      ['etc/ssh/ssh_host_rsa_key', 'etc/ssh/ssh_host_rsa_key.pub', 'root'],
    ],
    [
      'with an sshd that reads further configuration files',
      { directories: new Set(['etc/ssh', 'etc/ssh/sshd_config.d']), sshdConfig: included },
      ['etc/ssh/sshd_config.d/00-berth.conf', 'root'],
    ],
    [
      'with an sshd that reads no further configuration files',
      { directories: new Set(['etc/ssh', 'etc/ssh/sshd_config.d']), sshdConfig: 'PermitRootLogin no\n' },
      ['etc/ssh/sshd_config', 'root'],
    ],
    ['with /etc/ssh but without sshd', { directories: new Set(['etc/ssh']) }, ['root']],
  ] as const)
    it(`changes only ${expected.map((path) => `/${path}`).join(', ')} in a system ${name}`, () =>
      expect(paths(facts)).to.deep.equal(expected))

  it('makes sshd’s unit create host keys in a system with systemd', () => {
    const facts = { directories: new Set(['etc/ssh', 'etc/systemd']), hostKeys: ['ssh_host_rsa_key'] }
    expect(paths(facts)).to.include.members([
      'etc/systemd/system/ssh.service.d/00-berth.conf',
      'etc/systemd/system/sshd.service.d/00-berth.conf',
    ])
  })

  it('puts Berth’s lines first in the configuration of sshd, and keeps all other lines', () => {
    const sshdConfig = 'PermitRootLogin no\nPort 2222\n'
    const [change] = planAdaptation({ ...nothing, directories: new Set(['etc/ssh']), sshdConfig })
    expect(change).to.have.property('content', `PermitRootLogin yes\nPasswordAuthentication yes\n${sshdConfig}`)
  })

  it('gives private keys mode 0600, and makes no file executable or setuid', () => {
    const all = planAdaptation({
      directories: new Set(['etc/ssh', 'etc/systemd', 'etc/network', 'etc/NetworkManager']),
      files: new Set(['etc/machine-id']),
      hostKeys: ['ssh_host_rsa_key'],
      sshdConfig: included,
    })
    for (const change of all) if (change.kind === 'file') expect(change.mode & 0o7133).to.equal(0)
    expect(all.find((change) => 'path' in change && change.path.endsWith('rsa_key'))).to.include({
      mode: 0o600,
    })
  })
})
