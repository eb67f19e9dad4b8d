import { execFile } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { pino } from 'pino'
import { createSubvolume } from '../../agent/host/btrfs.js'
import { planBootstrap } from '../../agent/images/bootstrap-plan.js'
import { buildImage, publishImage } from '../../agent/images/build.js'
import { findCatalogEntry, type CatalogEntry } from '../../agent/images/catalog.js'
import { planContent } from '../../agent/images/content.js'
import type { Pool } from '../../agent/storage/pool.js'
import { Trash } from '../../agent/storage/trash.js'

const run = promisify(execFile)
const cacheDirectory = '/var/cache/berth-test'
/** All that is in a tree: capabilities of ping, the ACLs of /var/log/journal. */
const tarOptions = ['--numeric-owner', '--xattrs', '--xattrs-include=*', '--acls', '--zstd']

export const testTemplate = 'debian-12'
const testMirror = 'http://deb.debian.org/debian'

/**
 * Puts the image of a template into a test's pool: from a cache, in a second or two, or built from Debian's mirror
 * the first time and whenever the recipe changes. An agent that opens the pool afterwards finds it.
 */
export async function ensureTestImage(pool: Pool, templateId = testTemplate): Promise<void> {
  const entry = entryOf(templateId)
  if (existsSync(join(pool.images, entry.id))) return
  if (existsSync(archiveOf(entry))) return unpack(pool, entry)
  const parts = { pool, trash: new Trash(pool, pino({ level: 'silent' })), mirror: testMirror }
  await buildImage(parts, entry, () => undefined, new AbortController().signal)
  await cacheTestImage(pool, templateId)
}

/** Keeps the image that is in the pool for later tests. */
export async function cacheTestImage(pool: Pool, templateId = testTemplate): Promise<void> {
  const entry = entryOf(templateId)
  mkdirSync(cacheDirectory, { recursive: true, mode: 0o700 })
  const archive = archiveOf(entry)
  const temporary = `${archive}.${randomBytes(4).toString('hex')}`
  try {
    await run('tar', [...tarOptions, '-cf', temporary, '-C', join(pool.images, entry.id), '.'])
    renameSync(temporary, archive)
  } finally {
    rmSync(temporary, { force: true })
  }
  for (const name of readdirSync(cacheDirectory))
    if (
      name.startsWith(`${entry.id}-`) &&
      name.endsWith('.tar.zst') &&
      join(cacheDirectory, name) !== archive
    )
      rmSync(join(cacheDirectory, name))
}

async function unpack(pool: Pool, entry: CatalogEntry): Promise<void> {
  const work = join(pool.images, `.${entry.id}.${randomBytes(4).toString('hex')}`)
  await createSubvolume(work)
  await run('tar', [...tarOptions, '-xpf', archiveOf(entry), '-C', work])
  await publishImage(pool, work, entry.id)
}

function archiveOf(entry: CatalogEntry): string {
  const recipe = JSON.stringify([planBootstrap(entry, '/', []), planContent(entry)])
  const hash = createHash('sha256').update(recipe).digest('hex').slice(0, 16)
  return join(cacheDirectory, `${entry.id}-${hash}.tar.zst`)
}

function entryOf(templateId: string): CatalogEntry {
  const entry = findCatalogEntry(templateId)
  if (!entry) throw new Error(`no template ${templateId}`)
  return entry
}
