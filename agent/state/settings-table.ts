import type { Database } from './database.js'

/* This module reads and writes the table `settings`: settings of the whole host that the API changes. */

export function findSetting(db: Database, key: string): string | undefined {
  return db.prepare<[string], string>('SELECT value FROM settings WHERE key = ?').pluck().get(key)
}

export function putSetting(db: Database, key: string, value: string): void {
  db.prepare(
    'INSERT INTO settings (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value',
  ).run(key, value)
}
