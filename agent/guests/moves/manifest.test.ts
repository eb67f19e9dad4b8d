import { expect } from 'chai'
import { smallLimits } from '../../../test/support/guests/inserted-guest.js'
import { openFirewall, unlimitedTraffic, usualSecurity } from '../record/record.js'
import { noBackupSchedule, noSchedule, unmeasuredSpace } from '../record/snapshots-and-backups.js'
import { boundSpace, parseManifest, type Manifest } from './manifest.js'

const schedule = {
  ...noSchedule,
  enabled: true,
  intervalHours: 24,
  time: '03:30',
  firstDay: '2026-11-26',
  createdBy: 'a',
}
const copy = {
  createdAtMs: 1,
  createdBy: 'admin',
  scheduled: false,
  sizeBytes: 5,
  description: '',
  state: 'ready',
} as const
const rule = {
  id: 'r1',
  direction: 'in',
  protocol: 'tcp',
  action: 'DROP',
  network: 'all',
  sourceIp: '',
  port: '25',
} as const
const target = {
  id: '0d7c3a52-7f43-4a3a-9a53-0c6b0f6f2b11',
  name: 'main',
  place: { $case: 'local', value: { path: '/backups' } },
  password: 'a long password',
  verifyPercent: 5,
} as const

const manifest: Manifest = {
  document: {
    hasPassword: true,
    firewall: { ...openFirewall, rules: [{ ...rule, description: '' }] },
    traffic: { ...unlimitedTraffic, resetDay: 31 },
    expiresAtMs: 0,
    policy: { expired: false, overQuota: false, expiredForMs: 7 },
    suspension: { mode: 'stop', reason: 'bill', message: '', sinceMs: 1, untilMs: 0, resumes: true },
    security: usualSecurity,
    placement: { group: 'eu', labels: ['ssd'], spread: 'web', together: '' },
    labels: { tags: ['db', 'web'], note: 'Paid until May.\nAsk first.', deleteProtected: true },
    deletion: { sinceMs: 1, untilMs: 2, resumes: true },
    devices: ['tun'],
    os: 'linux',
    snapshotLimit: 5,
    snapshots: [{ ...copy, id: 's1' }],
    snapshotSchedule: schedule,
    snapshotSpace: { limitBytes: 0, retainedBytes: 10, allowanceBytes: 20, isMeasured: true },
    backups: [{ ...copy, id: 'b1', targetId: target.id, storedBytes: 3, verifiedAtMs: 0, usedBytes: 4 }],
    backupSchedule: { ...noBackupSchedule },
    extraBytes: 30,
  },
  limits: { ...smallLimits, ioReadIops: 100 },
  login: { password: 'secret12', authorizedKeys: ['ssh-ed25519 AAAA'] },
  backupTarget: target,
  portMappings: [
    {
      protocol: 'tcp',
      hostIp: '',
      hostPort: 20001,
      hostPortEnd: 20001,
      containerPort: 22,
      containerPortEnd: 22,
      description: '',
    },
  ],
  publicIpv4s: ['198.51.100.9'],
  ipv6Addresses: [],
  trafficCount: { periodStart: '2026-11-01', periodLeft: '', rxBytes: 1, txBytes: 2 },
  isWanted: true,
}

type Json = Record<string, unknown>

/** Returns the manifest as text, with another value at a path such as `limits.ramMb`. */
function withValue(path: string, value: unknown): string {
  const changed = structuredClone(manifest) as unknown as Json
  const keys = path.split('.')
  const parent = keys.slice(0, -1).reduce<Json>((object, key) => object[key] as Json, changed)
  parent[keys.at(-1)!] = value
  return JSON.stringify(changed)
}

describe('the check of the description of a moved guest', () => {
  it('returns a valid description unchanged', () => {
    expect(parseManifest(JSON.stringify(manifest))).to.deep.equal(manifest)
  })

  it('accepts a description without any optional field', () => {
    const { ioReadIops: _iops, ...limits } = manifest.limits
    const backupSchedule = { ...noBackupSchedule, ...schedule }
    const { labels: _labels, placement: _placement, deletion: _deletion, ...required } = manifest.document
    const document = { ...required, suspension: null, snapshotSchedule: noSchedule, backupSchedule }
    const least = { ...manifest, limits, document, login: null, backupTarget: null, trafficCount: null }
    expect(parseManifest(JSON.stringify(least))).to.deep.equal(least)
  })

  it('leaves out unknown fields', () => {
    for (const path of ['extra', 'document.boot', 'limits.extra', 'document.policy.extra', 'login.extra'])
      expect(parseManifest(withValue(path, { a: 1 })), path).to.deep.equal(manifest)
  })

  for (const [path, value] of [
    ['limits', {}],
    ['limits', null],
    ['limits.vcpuMilli', 0.5],
    ['limits.ramMb', 2 ** 53],
    ['limits.diskGb', 65_537],
    ['limits.ioReadIops', -1],
    ['limits.networkDownMbps', '1'],
    ['document.snapshotLimit', 0.5],
    ['document.snapshotLimit', 1001],
    ['document.expiresAtMs', 1e18],
    ['document.traffic.resetDay', 32],
    ['document.traffic.throttleMbps', 2 ** 32],
    ['document.suspension.untilMs', 0.5],
    ['document.suspension.reason', 'two\nlines'],
    ['document.policy.abuse', 5],
    ['document.firewall.enabled', 'yes'],
    ['document.firewall.rules', [{ ...rule, description: 5 }]],
    ['document.firewall.rules', [{ ...rule, description: '', port: '0-99999' }]],
    ['document.snapshots', [{ ...copy, id: '../up' }]],
    ['document.snapshots', [{ ...copy, id: 's1', sizeBytes: 0.5 }]],
    ['document.snapshots', [{ ...copy, id: 's1', createdAtMs: 2 ** 53 }]],
    ['document.backups', [{ ...copy, id: 'b1' }]],
    ['document.snapshotSchedule.intervalHours', 0],
    ['document.snapshotSchedule.intervalHours', 2 ** 31],
    ['document.snapshotSchedule.time', '25:00'],
    ['document.snapshotSchedule.time', ''],
    ['document.snapshotSchedule.firstDay', 'soon'],
    ['document.snapshotSchedule.firstDay', ''],
    ['document.snapshotSchedule.retention', 1001],
    ['document.snapshotSpace.limitBytes', 2 ** 51],
    ['document.snapshotSpace.allowanceBytes', -1],
    ['document.extraBytes', 0.5],
    ['document.backupSchedule.targetId', undefined],
    ['login.authorizedKeys', 'all'],
    ['backupTarget.place', { $case: 'local', value: { path: '/a/../b' } }],
    ['backupTarget.place', { $case: 'local' }],
    ['backupTarget.password', 5],
    ['portMappings.0.hostPort', 70_000],
    ['portMappings.0.description', 5],
    ['trafficCount.rxBytes', 0.5],
    ['trafficCount.periodStart', 'today'],
  ] as const)
    it(`rejects a description with the value ${JSON.stringify(value)} in the field ${path}`, () => {
      expect(() => parseManifest(withValue(path, value)))
        .to.throw()
        .with.property('code')
        .that.is.oneOf(codes)
    })
})

const codes = ['bad_stream', 'invalid_field']

describe('sizes in the description of a moved guest', () => {
  it('stay unchanged if they do not exceed the size of the received data', () => {
    expect(boundSpace(manifest, 30)).to.deep.equal(manifest)
  })

  it('are reduced to the size of the received data if they would raise the guest’s disk limit', () => {
    const { document } = boundSpace(manifest, 8)
    expect(document.snapshotSpace).to.include({ retainedBytes: 8, allowanceBytes: 8 })
    expect(document.extraBytes).to.equal(8)
  })

  it('are also reduced if they are only estimated', () => {
    const snapshots = [{ ...copy, id: 's1', sizeBytes: 2 ** 50 }]
    const unmeasured = { ...manifest, document: { ...manifest.document, snapshots, snapshotSpace: unmeasuredSpace } }
    const expected = { limitBytes: 0, retainedBytes: 8, allowanceBytes: 8, isMeasured: true }
    expect(boundSpace(unmeasured, 8).document.snapshotSpace).to.deep.equal(expected)
  })
})
