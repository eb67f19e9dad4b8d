import { mkdir, rm } from 'node:fs/promises'
import { BerthError } from '../../shared/errors.js'
import { CommandError, hostEnvironment, run } from '../host/process/process.js'
import { applyContent } from './apply-content.js'
import { parseFailure, parseProgress, planBootstrap } from './bootstrap-plan.js'
import type { Recipe } from './catalog.js'
import { planContent } from './content.js'
import { findSources } from './mirror.js'
import { makeImage, scratchOf, type BuildContext, type PublishParts } from './publish.js'

export interface BuildParts extends PublishParts {
  readonly mirror: string
}

const timeoutMs = 30 * 60_000

/**
 * Builds a template's image from Debian's packages and publishes it, complete and read-only. After a failure, no image
 * exists.
 * @throws {BerthError} `mirror_unreachable`, `release_missing`, `image_signature`, `storage_full`,
 * `image_build_failed`; the signal's reason when aborted
 */
export async function buildImage(parts: BuildParts, recipe: Recipe, making: BuildContext): Promise<void> {
  making.report(0, 'asking the mirror')
  const sources = await findSources(recipe, parts.mirror, making.signal)
  await makeImage(parts, recipe.id, making, async (work) => {
    await bootstrap(work, planBootstrap(recipe, work, sources), making)
    await applyContent(work, planContent(recipe))
  })
}

/** Runs the command that fills the tree. @param work path of the tree; temporary files are in a directory next to it */
export async function bootstrap(
  work: string,
  command: readonly string[],
  { report, signal }: BuildContext,
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
      return new BerthError('exhausted', 'storage_full', 'the storage pool of the host is full', { cause })
    case 'network':
      return new BerthError(
        'unavailable',
        'mirror_unreachable',
        'the mirror cannot be reached, or closed the connection',
        { cause },
      )
    case 'signature':
      return new BerthError('unavailable', 'image_signature', 'the packages of the mirror are not signed by Debian', {
        cause,
      })
    case 'other':
      return new BerthError('internal', 'image_build_failed', 'the image could not be built: mmdebstrap failed', {
        cause,
      })
  }
}
