import { expect } from 'chai'
import type { BackupTarget } from '../../proto/gen/berth/agent/v1/backup.js'
import { parseResticMessage, parseSnapshots, planRepository, planTags } from './plan-restic.js'

const id = '00000000-0000-4000-8000-00000000000a'
const guest = '00000000-0000-4000-8000-00000000000b'
const secrets = ['the-password', 'BODY OF THE KEY', 'the-secret']

const targetAt = (place: NonNullable<BackupTarget['place']>): BackupTarget => ({
  id,
  name: 'vault',
  password: 'the-password',
  verifyPercent: 100,
  place,
})
const sftp = {
  host: 'vault.example.com',
  port: 22,
  user: 'berth',
  path: 'kept/here',
  privateKey: '-----BEGIN KEY-----\nBODY OF THE KEY',
  hostKey: 'ssh-ed25519  AAAA of nobody',
}
const s3 = {
  endpoint: 'https://s3.example.com',
  region: 'eu-1',
  bucket: 'b',
  prefix: 'p/q',
  accessKeyId: 'AK',
  secretAccessKey: 'the-secret',
  caCertificate: 'PEM\n',
}

describe('the command line of restic', () => {
  it('selects a folder as the repository', () => {
    const plan = planRepository(targetAt({ $case: 'local', value: { path: '/srv/kept' } }), guest, '/run/x')
    expect(plan).to.deep.equal({
      args: ['--repo', `/srv/kept/${guest}`],
      env: { RESTIC_PASSWORD: 'the-password' },
      files: {},
    })
  })

  it('selects an SFTP server as the repository, with an ssh command that connects only to this server', () => {
    const { args, env, files } = planRepository(targetAt({ $case: 'sftp', value: sftp }), guest, '/run/x')
    expect(args.slice(0, 3)).to.deep.equal(['--repo', `sftp:target:kept/here/${guest}`, '--option'])
    expect(args[3]).to.match(/^sftp\.command=ssh -F \/dev\/null .* -p 22 -l berth vault\.example\.com -s sftp$/)
    expect(args[3]).to.include('-o StrictHostKeyChecking=yes -o UserKnownHostsFile=/run/x/known_hosts')
    expect(env).to.deep.equal({ RESTIC_PASSWORD: 'the-password' })
    expect(files).to.deep.equal({
      key: `${sftp.privateKey}\n`,
      known_hosts: 'vault.example.com ssh-ed25519 AAAA\n',
    })
    const elsewhere = targetAt({ $case: 'sftp', value: { ...sftp, host: '2001:db8::1', port: 2222 } })
    expect(planRepository(elsewhere, guest, '/run/x').files['known_hosts']).to.match(/^\[2001:db8::1\]:2222 /)
  })

  it('selects an S3 server as the repository', () => {
    const plan = planRepository(targetAt({ $case: 's3', value: s3 }), guest, '/run/x')
    expect(plan).to.deep.equal({
      args: [
        '--repo',
        `s3:https://s3.example.com/b/p/q/${guest}`,
        '--option',
        's3.region=eu-1',
        '--cacert',
        '/run/x/authority.pem',
      ],
      env: { RESTIC_PASSWORD: 'the-password', AWS_ACCESS_KEY_ID: 'AK', AWS_SECRET_ACCESS_KEY: 'the-secret' },
      files: { 'authority.pem': 'PEM\n' },
    })
    const plain = targetAt({ $case: 's3', value: { ...s3, prefix: '', region: '', caCertificate: '' } })
    expect(planRepository(plain, guest, '/run/x').args).to.deep.equal([
      '--repo',
      `s3:https://s3.example.com/b/${guest}`,
    ])
  })

  it('contains no secrets', () => {
    const places = [
      { $case: 'local', value: { path: '/srv/kept' } },
      { $case: 'sftp', value: sftp },
      { $case: 's3', value: s3 },
    ] as const
    for (const place of places)
      for (const secret of secrets)
        expect(planRepository(targetAt(place), guest, '/run/x').args.join(' ')).not.to.include(secret)
  })
})

describe('the list of backups from restic', () => {
  const snapshotId = 'ab'.repeat(32)
  const row = (fields: object): object => ({ id: snapshotId, time: '2026-11-23T09:00:00.5Z', ...fields })

  it('contains each backup’s creator and description, even if these have special characters', () => {
    const note = { createdBy: 'api:a,b', description: 'ünï, "code"', scheduled: true }
    const tags = planTags(id, note)
    expect(tags.every((tag) => !tag.includes(','))).to.equal(true)
    expect(parseSnapshots(JSON.stringify([row({ tags })]))).to.deep.equal([
      { snapshotId, backup: { id, createdAtMs: Date.UTC(2026, 10, 23, 9, 0, 0, 500), ...note } },
    ])
  })

  it('omits snapshots of other programs, but includes backups with an unreadable creator or description', () => {
    const rows = [
      row({ tags: null }),
      row({ tags: ['other'] }),
      row({ tags: [id], id: '../x' }),
      row({ tags: [id, 'note:!'] }),
    ]
    const found = parseSnapshots(JSON.stringify(rows))
    expect(found.map(({ backup }) => backup)).to.deep.equal([
      {
        id,
        createdAtMs: Date.UTC(2026, 10, 23, 9, 0, 0, 500),
        createdBy: '',
        description: '',
        scheduled: false,
      },
    ])
    expect(parseSnapshots('null')).to.deep.equal([])
    expect(() => parseSnapshots('{}')).to.throw('did not return a list')
  })
})

describe('the parser of restic’s output', () => {
  for (const [line, message] of [
    ['{"message_type":"status","bytes_done":5,"total_bytes":10}', { kind: 'status', doneBytes: 5, totalBytes: 10 }],
    ['{"message_type":"status"}', { kind: 'status', doneBytes: 0, totalBytes: 0 }],
    [
      '{"message_type":"summary","total_bytes_processed":7,"data_added":3}',
      { kind: 'summary', sizeBytes: 7, storedBytes: 3 },
    ],
    ['{"message_type":"error"}', undefined],
    ['no JSON', undefined],
    ['null', undefined],
  ] as const)
    it(`${message ? 'parses' : 'ignores'} the line '${line}'`, () =>
      expect(parseResticMessage(line)).to.deep.equal(message))
})
