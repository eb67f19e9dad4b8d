import { expect } from 'chai'
import { smallLimits, stoppedGuest } from '../../test/support/guests/inserted-guest.js'
import { noLabels } from '../../shared/label-rules.js'
import { noPlacement } from '../../shared/placement-rules.js'
import { firstOwnership } from './ownership/plan-ownership.js'
import { Changes } from '../state/changes.js'
import { openDatabase } from '../state/database.js'
import { unlimitedTraffic, usualSecurity, type PortMapping } from './record/record.js'
import { noBackupSchedule, noSchedule, unmeasuredSpace } from './record/snapshots-and-backups.js'
import { GuestStore, type GuestInsert } from './record/guest-store.js'
import type { GuestUpdate } from './record/rows.js'

const mapping = (hostPort: number, part: Partial<PortMapping> = {}): PortMapping => ({
  protocol: 'tcp',
  hostIp: '',
  hostPort,
  hostPortEnd: hostPort,
  containerPort: 22,
  containerPortEnd: 22,
  description: '',
  ...part,
})

const guest: GuestInsert = {
  ...stoppedGuest,
  status: 'running',
  wanted: 'running',
  portMappings: [mapping(20001), mapping(20100, { hostPortEnd: 20199, containerPortEnd: 121 })],
  publicIpv4s: ['198.51.100.9', '198.51.100.7'],
  ipv6Addresses: ['2001:db8::5'],
}

describe('the store of an agent’s guests', () => {
  let changes: Changes
  let store: GuestStore

  beforeEach(() => {
    changes = new Changes(openDatabase(':memory:'))
    store = new GuestStore(changes)
    store.insert(guest)
  })
  afterEach(() => changes.db.close())

  it('returns a guest as it was inserted', () => {
    const policy = { expired: false, overQuota: false }
    const snapshots = { snapshotLimit: 5, snapshots: [], snapshotSchedule: noSchedule, snapshotSpace: unmeasuredSpace }
    const room = { fetchedBytes: 0, extraBytes: 0, nextExtraBytes: 0 }
    const backups = { backups: [], backupSchedule: noBackupSchedule, ...room }
    const common = {
      policy,
      suspension: null,
      security: usualSecurity,
      statusReason: '',
      revision: 1,
      atNextStart: [],
      ownership: firstOwnership,
    }
    const system = {
      os: 'linux',
      boot: { mode: 'disk', image: '' },
      devices: [],
      labels: noLabels,
      placement: noPlacement,
      deletion: null,
      standby: null,
    }
    const expected = { ...guest, ...system, ...snapshots, ...backups, ...common }
    expect(store.get('u1')).to.deep.equal(expected)
    expect(store.list()).to.deep.equal([expected])
  })

  it('returns the same read-only objects until a guest changes', () => {
    const [record, list] = [store.get('u1'), store.list()]
    changes.transaction(() => changes.record('operation', 'o1'))
    expect([store.get('u1') === record, store.list() === list]).to.deep.equal([true, true])
    expect(() => record.portMappings[0]!.hostPort++).to.throw(TypeError)
    store.update('u1', { status: 'stopped' })
    expect([store.get('u1').status, store.list()[0]?.status]).to.deep.equal(['stopped', 'stopped'])
    store.remove('u1')
    expect([store.find('u1'), store.list()]).to.deep.equal([undefined, []])
  })

  it('stores a changed login, but keeps the revision if the login is the same as before', () => {
    store.update('u1', { login: 'sealed', hasPassword: true })
    expect(store.get('u1')).to.include({ login: 'sealed', hasPassword: true, revision: 2 })
    store.update('u1', { login: 'sealed', hasPassword: true })
    expect(store.get('u1').revision).to.equal(2)
  })

  it('returns changed values during a transaction, and the old values again after the transaction has failed', () => {
    const refused = (): void =>
      changes.transaction(() => {
        store.update('u1', { statusReason: 'refused' })
        expect([store.get('u1').statusReason, store.list()[0]?.statusReason]).to.deep.equal(['refused', 'refused'])
        throw new Error('refused')
      })
    expect(refused).to.throw('refused')
    expect(store.list()[0]?.statusReason).to.equal('')
    store.update('u1', { statusReason: 'done' })
    expect([store.get('u1').statusReason, store.list()[0]?.statusReason]).to.deep.equal(['done', 'done'])
  })

  const updates: GuestUpdate[] = [
    { status: 'stopped' },
    { statusReason: 'why' },
    { wanted: 'stopped' },
    { traffic: { ...unlimitedTraffic, monthlyGb: 3 } },
    { firewall: { enabled: true, defaultAction: 'DROP', rules: [] } },
    { expiresAtMs: 9 },
    { policy: { expired: true, overQuota: false } },
  ]
  for (const update of updates)
    it(`changes only the field "${Object.keys(update).join()}" in an update of this field, and ignores a repeated update`, () => {
      const before = store.get('u1')
      store.update('u1', update)
      store.update('u1', update)
      expect(store.get('u1')).to.deep.equal({ ...before, ...update, revision: 2 })
      expect(changes.revision).to.equal(2)
    })

  it('writes changed limits into the spec of the guest', () => {
    store.update('u1', { limits: { ...smallLimits, ramMb: 512 } })
    expect(store.get('u1').spec).to.deep.equal({ ...guest.spec, limits: { ...smallLimits, ramMb: 512 } })
  })

  it('adds, replaces and removes a single port mapping, and keeps the order of the other mappings', () => {
    store.putMapping('u1', store.nextPosition('u1'), mapping(20500))
    const ports = (): number[] => store.get('u1').portMappings.map(({ hostPort }) => hostPort)
    expect(ports()).to.deep.equal([20001, 20100, 20500])
    store.removeMapping('u1', store.getPosition('u1', 1))
    expect(ports()).to.deep.equal([20001, 20500])
    store.putMapping('u1', store.getPosition('u1', 1), mapping(20600))
    expect(ports()).to.deep.equal([20001, 20600])
    store.putMapping('u1', store.nextPosition('u1'), mapping(20700))
    expect(ports()).to.deep.equal([20001, 20600, 20700])
    expect(() => store.getPosition('u1', 3)).to.throw('port mapping not found')
    expect(store.get('u1').revision).to.equal(changes.revision)
  })

  it('reports an address as used until its guest is deleted', () => {
    expect(store.hasAddress('198.51.100.7')).to.equal(true)
    store.setAddresses('u1', 6, ['2001:db8::6', '2001:db8::5'])
    expect(store.get('u1')).to.deep.include({
      publicIpv4s: guest.publicIpv4s,
      ipv6Addresses: ['2001:db8::6', '2001:db8::5'],
    })
    store.remove('u1')
    expect(store.hasAddress('198.51.100.7')).to.equal(false)
    expect(changes.db.prepare('SELECT count(*) FROM port_mappings').pluck().get()).to.equal(0)
  })
})
