import { randomBytes } from 'node:crypto'
import { chmod, lstat, mkdir, readdir, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { BerthError } from '../../shared/errors.js'
import { createSubvolume, setReadOnly, syncFilesystem } from '../host/btrfs.js'
import { CommandError, hostEnvironment, run } from '../host/process.js'
import { storageError } from '../storage/errors.js'
import type { Pool } from '../storage/pool.js'
import type { Trash } from '../storage/trash.js'
import { applyContent } from './apply-content.js'
import { parseFailure, parseProgress, planBootstrap } from './bootstrap-plan.js'
import type { CatalogEntry } from './catalog.js'
import { planContent } from './content.js'
import { findSources } from './mirror.js'

/** @param fraction 0 to 1 */
export type Report = (fraction: number, stage: string) => void

export interface BuildParts {
  readonly pool: Pool
  readonly trash: Trash
  /** URL of the Debian archive. */
  readonly mirror: string
}

const timeoutMs = 30 * 60_000

/**
 * Builds a template's image from Debian's packages and publishes it: complete and read-only, or not at all.
 * @throws {BerthError} `mirror_unreachable`, `release_missing`, `image_signature`, `storage_full`,
 * `image_build_failed`; the signal's reason when aborted
 */
export async function buildImage(
  parts: BuildParts,
  entry: CatalogEntry,
  report: Report,
  signal: AbortSignal,
): Promise<void> {
  report(0, 'asking the mirror')
  const sources = await findSources(entry, parts.mirror, signal)
  const work = join(parts.pool.images, `.${entry.id}.${randomBytes(6).toString('hex')}`)
  try {
    await createSubvolume(work)
    await bootstrap(work, planBootstrap(entry, work, sources), report, signal)
    await applyContent(work, planContent(entry))
    report(0.98, 'publishing')
    await publishImage(parts.pool, work, entry.id)
  } catch (error) {
    await discardBuild(parts, work)
    signal.throwIfAborted()
    throw storageError(error, `build image ${entry.id}`)
  }
  report(1, 'image built')
}

async function bootstrap(
  work: string,
  command: readonly string[],
  report: Report,
  signal: AbortSignal,
): Promise<void> {
  await mkdir(scratchOf(work), { mode: 0o700 })
  try {
    await run('unshare', command, {
      timeoutMs,
      signal,
      env: { ...hostEnvironment, TMPDIR: scratchOf(work) },
      onStderrLine: (line) => {
        const progress = parseProgress(line)
        if (progress) report(progress.fraction, progress.stage)
      },
    })
  } catch (error) {
    throw error instanceof CommandError ? bootstrapError(error) : error
  }
  await rm(scratchOf(work), { recursive: true, force: true })
}

function bootstrapError(cause: CommandError): Error {
  switch (parseFailure(cause.stderr)) {
    case 'full':
      return new BerthError('exhausted', 'storage_full', 'the pool is full', { cause })
    case 'network':
      return new BerthError('unavailable', 'mirror_unreachable', 'the mirror failed', { cause })
    case 'signature':
      return new BerthError('unavailable', 'image_signature', 'not signed by Debian', { cause })
    case 'other':
      return new BerthError('internal', 'image_build_failed', 'mmdebstrap failed', { cause })
  }
}

/** All of it on the disk before it has its name; read-only before, too (in the same folder it can be renamed still). */
export async function publishImage(pool: Pool, work: string, id: string): Promise<void> {
  if (!(await lstat(work)).isDirectory()) throw new Error(`${work} is no directory`)
  await chmod(work, 0o755)
  await setReadOnly(work, true)
  await syncFilesystem(pool.path)
  await rename(work, join(pool.images, id))
}

async function discardBuild({ trash }: BuildParts, work: string): Promise<void> {
  await rm(scratchOf(work), { recursive: true, force: true })
  await trash.discard(work)
}

/** Throws away what builds left that died with their agent. No build may run. */
export async function sweepBuilds(parts: BuildParts): Promise<void> {
  const left = (await readdir(parts.pool.images)).filter((name) => name.startsWith('.'))
  for (const name of left.filter((name) => !name.endsWith(scratchSuffix)))
    await discardBuild(parts, join(parts.pool.images, name))
  for (const name of left.filter((name) => name.endsWith(scratchSuffix)))
    await rm(join(parts.pool.images, name), { recursive: true, force: true })
}

const scratchSuffix = '.tmp'
const scratchOf = (work: string): string => `${work}${scratchSuffix}`
