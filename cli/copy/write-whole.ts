import { randomBytes } from 'node:crypto'
import { createWriteStream } from 'node:fs'
import { access, constants, open, rename, rm, stat } from 'node:fs/promises'
import { dirname } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { fileError, usageError } from '../errors.js'
import type { CopyProgress } from './progress.js'

/** Checks that a file can be created in a directory. @throws {CliError} `usage` */
export async function checkDirectory(path: string): Promise<void> {
  const found = await stat(path).catch((cause: NodeJS.ErrnoException) => {
    throw cause.code === 'ENOENT' ? usageError(`${path}: there is no such directory`) : fileError(path, cause)
  })
  if (!found.isDirectory()) throw usageError(`${path}: is not a directory`)
  await access(path, constants.W_OK | constants.X_OK).catch((cause: unknown) => {
    throw fileError(path, cause)
  })
}

/** Checks that a file can be written as a whole. @throws {CliError} `usage` */
export async function checkTarget(path: string): Promise<void> {
  await checkDirectory(dirname(path))
  const found = await stat(path).catch(() => undefined)
  if (found?.isDirectory()) throw usageError(`${path}: is a directory`)
}

/**
 * Writes a file of any length. Until it is complete, it has another name in the same directory. An older file stays as it
 * is if the new one cannot be completed.
 */
export async function writeFileWhole(
  path: string,
  parts: AsyncIterable<Uint8Array>,
  progress: Pick<CopyProgress, 'add' | 'end'>,
): Promise<void> {
  const temporary = `${path}.${randomBytes(4).toString('hex')}.part`
  await checkTarget(path)
  const handle = await open(temporary, 'wx', 0o600).catch((cause: unknown) => {
    throw fileError(path, cause)
  })
  try {
    for await (const part of parts) {
      await handle.writeFile(part)
      progress.add(part.length)
    }
    await handle.sync()
    await handle.close()
    await rename(temporary, path)
  } catch (error) {
    await handle.close().catch(() => undefined)
    await rm(temporary, { force: true })
    throw error
  } finally {
    progress.end()
  }
}

/** Writes to the standard output as fast as its reader reads. Ends early if its reader ends, as with `| head`. */
export async function writeToOutput(parts: AsyncIterable<Uint8Array>): Promise<void> {
  const output = createWriteStream('', { fd: 1, autoClose: false })
  await pipeline(parts, output).catch((cause: NodeJS.ErrnoException) => {
    if (cause.code !== 'EPIPE') throw cause
  })
}
