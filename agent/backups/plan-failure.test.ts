import { expect } from 'chai'
import { isAbsent, planFailure, readComplaint } from './plan-failure.js'

/* Error messages of restic 0.14 and OpenSSH 9.2. */
const said: [string, string][] = [
  ['Fatal: wrong password or no key found', 'backup_password_wrong'],
  ['Host key verification failed.\nFatal: unable to start the sftp session, error: EOF', 'backup_target_refused'],
  ['subprocess ssh: root@127.0.0.1: Permission denied (publickey).', 'backup_target_refused'],
  ['Fatal: create repository at sftp:target:/x failed: permission denied', 'backup_target_refused'],
  [
    'Fatal: unable to open config file: Stat: Get "https://127.0.0.1/": x509: certificate signed by unknown authority',
    'backup_target_refused',
  ],
  [
    'Fatal: unable to open config file: Stat: The AWS Access Key Id you provided does not exist in our records.',
    'backup_target_refused',
  ],
  ['The request signature we calculated does not match the signature you provided.', 'backup_target_refused'],
  ['Save(<data/a6>) returned error, retrying after 1s: write /x: no space left on device', 'backup_target_full'],
  [
    'Save(<data/a6>) returned error, retrying after 1s: client.PutObject: Storage backend has reached its minimum free drive threshold.',
    'backup_target_full',
  ],
  ['subprocess ssh: ssh: connect to host 127.0.0.1 port 9: Connection refused', 'backup_target_unreachable'],
  [
    'Fatal: unable to open config file: Stat: Get "https://s3": dial tcp: lookup s3: no such host\nIs there a repository at the following location?',
    'backup_target_unreachable',
  ],
  ['Fatal: unable to open repository: unable to start the sftp session, error: EOF', 'backup_target_unreachable'],
  ['Fatal: unable to open config file: stat /x/config: no such file or directory', 'backup_missing'],
  ['Fatal: unable to open config file: Stat: The specified key does not exist.', 'backup_missing'],
  ['pack 0a: does not match id\nFatal: repository contains errors', 'backup_damaged'],
  ['Load(<data/0a>): no such file or directory\nFatal: repository contains errors', 'backup_damaged'],
  ['Fatal: unable to create lock in backend: repository is already locked by PID 7', 'backup_busy'],
  ['runtime: out of memory: cannot allocate 67108864-byte block', 'backup_memory'],
  [
    'fatal error: runtime: out of memory\nIs there a repository at the following location?\ndoes not exist',
    'backup_memory',
  ],
  ['something else', 'backup_target_failed'],
]

describe('the output of restic', () => {
  for (const [text, code] of said)
    it(`means the error ${code} if it is "${text.slice(0, 60)}"`, () => {
      const failed = planFailure(text)
      expect([failed.kind, failed.code]).to.deep.equal(['conflict', code])
      expect(isAbsent(failed)).to.equal(code === 'backup_missing')
    })

  it('is classified by earlier lines if the last line contains no reason', () => {
    const last = 'Save(<data/a6>) returned error, retrying after 2s: Save: closed'
    expect(planFailure(last).code).to.equal('backup_target_failed')
    expect(planFailure(last, `read: connection reset by peer\n${last}`).code).to.equal('backup_target_unreachable')
    expect(planFailure('no space left on device', 'connection refused').code).to.equal('backup_target_full')
  })

  it('leads to an error message without paths and addresses', () => {
    expect(planFailure('Fatal: create repository at s3:https://inside/x failed').message).not.to.include('inside')
  })

  for (const [line, complaint] of [
    ['Save(<data/a6>) returned error, retrying after 1s: connection reset by peer', { final: false }],
    ['Save(<data/a6>) returned error, retrying after 1s: no space left on device', { final: true }],
    ['subprocess ssh: Host key verification failed.', { final: true }],
    ['using parent snapshot 2b3c', undefined],
  ] as const)
    it(`means ${complaint ? (complaint.final ? 'a final' : 'a temporary') : 'no'} failure if it contains "${line.slice(0, 60)}"`, () =>
      expect(readComplaint(line)).to.deep.equal(complaint))
})
