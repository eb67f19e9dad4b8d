import { execFile } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { pino } from 'pino'
import { createSubvolume } from '../../../agent/host/disk/btrfs.js'
import { planBootstrap } from '../../../agent/images/bootstrap-plan.js'
import { buildImage } from '../../../agent/images/build.js'
import { recipes, type Recipe } from '../../../agent/images/catalog.js'
import { planContent } from '../../../agent/images/content.js'
import { publishImage } from '../../../agent/images/publish.js'
import { openPool, type Pool } from '../../../agent/storage/pool.js'
import { Trash } from '../../../agent/storage/trash.js'
import { scratchDirectory, testStorage } from '../scratch.js'

const run = promisify(execFile)
const cacheDirectory = '/var/cache/berth-test'
/** Options with which tar preserves everything, such as capabilities of ping and ACLs of /var/log/journal. */
const tarOptions = ['--numeric-owner', '--xattrs', '--xattrs-include=*', '--acls', '--zstd']

const template = recipeOf('debian-12')
const mirror = 'http://deb.debian.org/debian'

/**
 * Copies the image of debian-12 from a cache into a test's pool, within a second or two. An agent that opens the pool
 * later finds the image.
 */
export async function ensureTestImage(pool: Pool): Promise<void> {
  if (existsSync(join(pool.images, template.id))) return
  const work = join(pool.images, `.${template.id}.${randomBytes(4).toString('hex')}`)
  await createSubvolume(work)
  await unpackTestImage(work)
  await publishImage(pool, work, template.id)
}

/**
 * Unpacks the image into a directory. If the cache has no image of the current recipe, the image is built from Debian's
 * mirror. test/host/images.test.ts also stores the image that it builds in the cache.
 */
export async function unpackTestImage(directory: string): Promise<void> {
  if (!existsSync(archiveOf(template))) await buildTestImage()
  await run('tar', [...tarOptions, '-xpf', archiveOf(template), '-C', directory])
}

/** Stores the image of the pool in the cache, for later tests. */
export async function cacheTestImage(pool: Pool): Promise<void> {
  mkdirSync(cacheDirectory, { recursive: true, mode: 0o700 })
  const archive = archiveOf(template)
  const temporary = `${archive}.${randomBytes(4).toString('hex')}`
  try {
    await run('tar', [...tarOptions, '-cf', temporary, '-C', join(pool.images, template.id), '.'])
    renameSync(temporary, archive)
  } finally {
    rmSync(temporary, { force: true })
  }
  const outdated = readdirSync(cacheDirectory).filter((name) => /^debian-12-.*\.tar\.zst$/.test(name))
  for (const name of outdated) if (join(cacheDirectory, name) !== archive) rmSync(join(cacheDirectory, name))
}

async function buildTestImage(): Promise<void> {
  const scratch = scratchDirectory(`btest-image-${process.pid}`)
  try {
    const pool = await openPool(testStorage(scratch.path))
    const parts = { pool, trash: new Trash(pool, pino({ level: 'silent' })), mirror }
    const making = { report: () => undefined, signal: new AbortController().signal }
    await buildImage(parts, template, making)
    await cacheTestImage(pool)
  } finally {
    scratch.wipe()
  }
}

function archiveOf(entry: Recipe): string {
  const recipe = JSON.stringify([planBootstrap(entry, '/', []), planContent(entry)])
  const hash = createHash('sha256').update(recipe).digest('hex').slice(0, 16)
  return join(cacheDirectory, `${entry.id}-${hash}.tar.zst`)
}

function recipeOf(templateId: string): Recipe {
  const recipe = recipes.find(({ id }) => id === templateId)
  if (!recipe) throw new Error(`no template ${templateId}`)
  return recipe
}
