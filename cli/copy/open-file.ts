import { createReadStream } from 'node:fs'
import { stat } from 'node:fs/promises'
import { usageError } from '../errors.js'

/** A file that is read in parts. Only the length of regular files is known. */
export interface OpenFile {
  readonly bytes: number | undefined
  readonly parts: AsyncIterable<Uint8Array>
}

/** Opens a file, or the standard input for `-`. @throws {CliError} `usage` if it cannot be read */
export async function openFile(path: string): Promise<OpenFile> {
  if (path === '-') return { bytes: undefined, parts: process.stdin }
  const found = await stat(path).catch((cause: Error) => {
    throw usageError(`${path}: ${cause.message}`)
  })
  return { bytes: found.isFile() ? found.size : undefined, parts: createReadStream(path) }
}
