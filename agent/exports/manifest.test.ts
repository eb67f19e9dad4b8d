import { expect } from 'chai'
import { execFileSync } from 'node:child_process'
import { stoppedGuest } from '../../test/support/guests/inserted-guest.js'
import { documentDefaults, type GuestRecord } from '../guests/record/record.js'
import { compressHead, compressions, tarEntry } from './archive-head.js'
import { manifestName } from '../images/sources/container-export.js'
import { makeManifest, parseManifest } from './manifest.js'

const rule = {
  id: 'r1',
  direction: 'in',
  protocol: 'tcp',
  action: 'DROP',
  network: 'all',
  sourceIp: '192.0.2.0/24',
  port: '25',
  description: '',
} as const
const record: GuestRecord = {
  ...documentDefaults,
  ...stoppedGuest,
  login: 'sealed secret',
  hasPassword: true,
  firewall: { enabled: true, defaultAction: 'DROP', rules: [rule] },
  labels: { tags: ['web'], note: 'owes money', deleteProtected: false },
  suspension: { mode: 'stop', reason: 'abuse', message: '', sinceMs: 1, untilMs: 0, resumes: true },
  statusReason: '',
  ownership: { role: 'owner' } as GuestRecord['ownership'],
  revision: 1,
}
const manifestOf = (includeLabels: boolean) => makeManifest(record, { nowMs: 0, includeLabels })

describe('the manifest of an export', () => {
  it('contains the settings of the guest, and is read again unchanged', () => {
    const manifest = manifestOf(true)
    expect(manifest.guest).to.deep.include({ name: 'one', template: 'debian-12', ssh_login: 'password', tags: ['web'] })
    expect(manifest.guest.limits).to.include({ vcpu: 1, ram_mb: 256, disk_gb: 1, io_read_iops: 0 })
    expect(parseManifest(JSON.stringify(manifest))).to.deep.equal(manifest)
  })

  it('contains no secrets and no reason of a suspension, and contains tags and the note only if they are requested', () => {
    expect(JSON.stringify(manifestOf(true))).not.to.match(/secret|abuse/)
    expect(JSON.stringify(manifestOf(false))).not.to.match(/owes money|tags|note/)
  })

  for (const [name, change, message] of [
    ['of a newer version', { version: 2 }, 'upgrade Berth'],
    ['of another format', { format: 'other' }, '/format is not valid'],
    ['with a limit outside its range', { guest: { ...manifestOf(true).guest, limits: { vcpu: 1e9 } } }, 'is not valid'],
  ] as const)
    it(`is refused if it is a manifest ${name}`, () =>
      expect(() => parseManifest(JSON.stringify({ ...manifestOf(true), ...change }))).to.throw(message))

  it('is refused if it is not JSON', () => expect(() => parseManifest('{')).to.throw('is not valid'))

  for (const compression of compressions)
    it(`is a compressed tar entry that tar reads together with the compressed entries after it (${compression})`, async () => {
      const head = await compressHead(tarEntry(manifestName, Buffer.from('{}\n'), new Date(0)), compression)
      const rest = await compressHead(tarEntry('rest', Buffer.from('x'), new Date(0)), compression)
      const input = Buffer.concat([head, rest])
      const read = (command: string, options: object): string =>
        execFileSync('tar', [command, ...filesOf(compression)], options).toString()
      expect(read('--list', { input })).to.equal(`${manifestName}\nrest\n`)
    })
})

const filesOf = (compression: string): string[] => [`--${compression}`, '--file=-']
