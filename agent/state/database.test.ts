import { expect } from 'chai'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { documentDefaults, unlimitedTraffic } from '../guests/record/record.js'
import { GuestStore } from '../guests/record/guest-store.js'
import { OperationStore } from '../operations/operation-store.js'
import { Changes } from './changes.js'
import { openDatabase } from './database.js'

const full = 2
const single = (port: number): object => ({ container_port: port, container_port_end: port })

describe('the journal database', () => {
  let directory: string
  let path: string

  beforeEach(() => {
    directory = mkdtempSync(join(tmpdir(), 'btest-database-'))
    path = join(directory, 'journal.db')
  })
  afterEach(() => rmSync(directory, { recursive: true }))

  it('uses WAL and syncs every commit', () => {
    const db = openDatabase(path)
    expect(db.pragma('journal_mode', { simple: true })).to.equal('wal')
    expect(db.pragma('synchronous', { simple: true })).to.equal(full)
    expect(db.pragma('foreign_keys', { simple: true })).to.equal(1)
    db.close()
  })

  it('retains its content when opened again', () => {
    const first = openDatabase(path)
    first.exec("INSERT INTO meta (key, value) VALUES ('btest', 'x')")
    const version = first.pragma('user_version', { simple: true })
    first.close()
    const again = openDatabase(path)
    expect(again.pragma('user_version', { simple: true })).to.equal(version)
    expect(again.prepare("SELECT value FROM meta WHERE key = 'btest'").get()).to.deep.equal({ value: 'x' })
    again.close()
  })

  it('migrates the mappings of an older journal', () => {
    const old = openDatabase(path, { version: 4 })
    old.exec(
      `INSERT INTO guests (uuid, id, name, spec, status, wanted, idmap_slot, ipv4, mac, created_at_ms, revision)
         VALUES ('u1', 1, 'one', '{}', 'running', 'running', 0, '10.64.0.2', '02:00', 5, 1);
       INSERT INTO port_mappings VALUES ('u1', 0, 'tcp', 20001, 22, 'ssh'), ('u1', 1, 'udp', 20001, 53, '');`,
    )
    old.close()
    const db = openDatabase(path)
    const ports = { host_ip: '', host_port: 20001, host_port_end: 20001 }
    expect(db.prepare('SELECT * FROM port_mappings ORDER BY position').all()).to.deep.equal([
      { guest_uuid: 'u1', position: 0, protocol: 'tcp', ...ports, ...single(22), description: 'ssh' },
      { guest_uuid: 'u1', position: 1, protocol: 'udp', ...ports, ...single(53), description: '' },
    ])
    db.exec("DELETE FROM guests WHERE uuid = 'u1'")
    expect(db.prepare('SELECT * FROM port_mappings').all()).to.deep.equal([])
    db.close()
  })

  it('migrates the guests of an older journal, including the values of columns that no longer exist', () => {
    const old = openDatabase(path, { version: 8 })
    const limits = { vcpuMilli: 500 }
    const firewall = {
      enabled: true,
      defaultAction: 'DROP',
      rules: [{ id: 'r', description: 'it\'s "mine"' }],
    }
    const traffic = { ...unlimitedTraffic, monthlyGb: 5 }
    const add = old.prepare(
      `INSERT INTO guests (uuid, id, name, spec, status, wanted, idmap_slot, ipv4, mac, created_at_ms, revision,
         has_password, firewall, traffic, expires_at_ms, expired, over_quota)
       VALUES (@uuid, @id, @uuid, @spec, 'running', 'running', @id, @uuid, @uuid, 5, 0,
         @set, @firewall, @traffic, @expiresAtMs, 0, @set)`,
    )
    const spec = JSON.stringify({ virtualization: 'lxc', templateId: 'debian-12', limits })
    const texts = { firewall: JSON.stringify(firewall), traffic: JSON.stringify(traffic) }
    add.run({ id: 1, uuid: 'u1', spec, set: 1, expiresAtMs: 7, ...texts })
    add.run({ id: 2, uuid: 'u2', spec, set: 0, expiresAtMs: 0, firewall: null, traffic: null })
    old.close()
    const store = new GuestStore(new Changes(openDatabase(path)))
    const policy = { expired: false, overQuota: true }
    expect(store.get('u1')).to.deep.include({ hasPassword: true, expiresAtMs: 7, policy, firewall, traffic })
    expect(store.get('u1').spec).to.deep.equal({ virtualization: 'lxc', templateId: 'debian-12', limits })
    expect(store.get('u2')).to.deep.include(documentDefaults)
    store.update('u2', { traffic })
    expect(store.get('u2')).to.deep.include({ ...documentDefaults, traffic })
    store.changes.db.close()
  })

  it('migrates the unfinished and the removed operations of an older journal', () => {
    const old = openDatabase(path, { version: 7 })
    const columns = 'id, action, guest_uuid, guest_id, guest_name, request_hash, input, status, requested_by'
    const add = old.prepare(
      `INSERT INTO operations (${columns}, created_at_ms, revision) VALUES (?, ?, ?, ?, ?, 'h', ?, ?, 'me', 1, 1)`,
    )
    add.run('o1', 'stop', 'u1', 7, 'web', '{"force":true}', 'running')
    add.run('o2', 'image_build', '', 0, '', '{"templateId":"debian-12"}', 'pending')
    add.run('o3', 'image_build', '', 0, '', 'damaged', 'pending')
    const record = { id: 'o0', action: 'stop', guestUuid: 'u1', guestId: 7, guestName: 'web', status: 'done' }
    old.prepare("INSERT INTO removed_operations VALUES ('o0', 'h', ?, 1)").run(JSON.stringify(record))
    old.close()
    const store = new OperationStore(new Changes(openDatabase(path)))
    const web = { kind: 'guest', id: 'u1', name: 'web', number: 7 }
    expect(store.listOpen().map(({ id, subject }) => [id, subject])).to.deep.equal([
      ['o1', { kind: 'guest', id: 'u1' }],
      ['o2', { kind: 'image', id: 'debian-12' }],
      ['o3', { kind: 'image', id: 'o3' }],
    ])
    expect(store.findJournaled('o1')).to.deep.include({ input: { force: true }, step: 0 })
    expect(store.get('o1').subject).to.deep.equal(web)
    const removed = { id: 'o0', action: 'stop', status: 'done', subject: web, downtimeMs: 0, moved: false }
    expect(store.findSubmitted('o0', 2)?.record).to.deep.equal(removed)
    store.changes.db.close()
  })

  it('refuses a journal of a newer version and leaves it unchanged', () => {
    const db = openDatabase(path)
    db.pragma('user_version = 999')
    db.close()
    expect(() => openDatabase(path)).to.throw('the database journal.db has version 999')
  })

  it('opens a journal of a newer version that this version can still read, and keeps the version number', () => {
    const db = openDatabase(path)
    const version = db.pragma('user_version', { simple: true }) as number
    db.pragma('user_version = 999')
    db.prepare("UPDATE meta SET value = ? WHERE key = 'readable_since'").run(`999 ${version}`)
    db.close()
    const again = openDatabase(path)
    expect(again.pragma('user_version', { simple: true })).to.equal(999)
    again.exec("INSERT INTO meta (key, value) VALUES ('btest', 'x')")
    again.close()
  })

  it('refuses a journal of a newer version that this version can no longer read', () => {
    const db = openDatabase(path)
    db.pragma('user_version = 999')
    db.prepare("UPDATE meta SET value = '999 998' WHERE key = 'readable_since'").run()
    db.close()
    expect(() => openDatabase(path)).to.throw('the database journal.db has version 999')
  })

  it('uses a SQLite version without the WAL-reset bug (3.7.0 to 3.51.2) that corrupts databases', () => {
    const db = openDatabase(path)
    const { version } = db.prepare('SELECT sqlite_version() AS version').get() as { version: string }
    db.close()
    const [major = 0, minor = 0, patch = 0] = version.split('.').map(Number)
    expect(major * 1e6 + minor * 1e3 + patch).to.be.at.least(3_051_003)
  })
})
