import Database from 'better-sqlite3'
import { expect } from 'chai'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openDatabase } from './database.js'

const full = 2
const single = (port: number): object => ({ container_port: port, container_port_end: port })

describe('journal database', () => {
  let directory: string
  let path: string

  beforeEach(() => {
    directory = mkdtempSync(join(tmpdir(), 'btest-database-'))
    path = join(directory, 'journal.db')
  })
  afterEach(() => rmSync(directory, { recursive: true }))

  it('writes ahead and syncs every commit', () => {
    const db = openDatabase(path)
    expect(db.pragma('journal_mode', { simple: true })).to.equal('wal')
    expect(db.pragma('synchronous', { simple: true })).to.equal(full)
    expect(db.pragma('foreign_keys', { simple: true })).to.equal(1)
    db.close()
  })

  it('keeps what it has when opened again', () => {
    const first = openDatabase(path)
    first.exec("INSERT INTO meta (key, value) VALUES ('btest', 'x')")
    const version = first.pragma('user_version', { simple: true })
    first.close()
    const again = openDatabase(path)
    expect(again.pragma('user_version', { simple: true })).to.equal(version)
    expect(again.prepare("SELECT value FROM meta WHERE key = 'btest'").get()).to.deep.equal({ value: 'x' })
    again.close()
  })

  it('brings the mappings of an older journal along', () => {
    const old = new Database(path)
    old.exec(
      `CREATE TABLE guests (uuid TEXT PRIMARY KEY, status TEXT NOT NULL) STRICT;
       CREATE TABLE port_mappings (
         guest_uuid TEXT NOT NULL REFERENCES guests (uuid) ON DELETE CASCADE,
         position INTEGER NOT NULL,
         protocol TEXT NOT NULL CHECK (protocol IN ('tcp', 'udp')),
         host_port INTEGER NOT NULL,
         container_port INTEGER NOT NULL,
         description TEXT NOT NULL DEFAULT '',
         PRIMARY KEY (guest_uuid, position),
         UNIQUE (protocol, host_port)
       ) STRICT, WITHOUT ROWID;
       INSERT INTO guests VALUES ('u1', 'running');
       INSERT INTO port_mappings VALUES ('u1', 0, 'tcp', 20001, 22, 'ssh'), ('u1', 1, 'udp', 20001, 53, '');
       PRAGMA user_version = 4;`,
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

  it('refuses a journal of a newer version and leaves it alone', () => {
    const db = openDatabase(path)
    db.pragma('user_version = 999')
    db.close()
    expect(() => openDatabase(path)).to.throw('journal is of version 999')
  })

  it('has a SQLite without the WAL-reset corruption of 3.7.0 to 3.51.2', () => {
    const db = openDatabase(path)
    const { version } = db.prepare('SELECT sqlite_version() AS version').get() as { version: string }
    db.close()
    const [major = 0, minor = 0, patch = 0] = version.split('.').map(Number)
    expect(major * 1e6 + minor * 1e3 + patch).to.be.at.least(3_051_003)
  })
})
