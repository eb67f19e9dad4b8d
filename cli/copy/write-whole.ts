import { randomBytes } from 'node:crypto'
import { createWriteStream } from 'node:fs'
import { open, rename, rm } from 'node:fs/promises'
import { dirname } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { fileError, usageError } from '../errors.js'
import type { CopyProgress } from './progress.js'

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
  const handle = await open(temporary, 'wx', 0o600).catch((cause: NodeJS.ErrnoException) => {
    throw cause.code === 'ENOENT' ? usageError(`${dirname(path)}: there is no such directory`) : fileError(path, cause)
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
