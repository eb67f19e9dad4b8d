import { expect } from 'chai'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openDatabase } from './database.js'

const full = 2

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
