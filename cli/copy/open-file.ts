import { open, type FileHandle } from 'node:fs/promises'
import { fileError, usageError } from '../errors.js'

/** A file that is read in parts. Only the length of regular files is known. */
export interface OpenFile {
  readonly bytes: number | undefined
  readonly parts: AsyncIterable<Uint8Array>
}

/** Opens a file, or the standard input for `-`. @throws {CliError} `usage` if it cannot be read */
export async function openFile(path: string): Promise<OpenFile> {
  if (path === '-') return { bytes: undefined, parts: process.stdin }
  const file = await open(path).catch((cause: unknown) => {
    throw fileError(path, cause)
  })
  return { bytes: await lengthOf(path, file), parts: file.createReadStream() }
}

/** Returns the length of a regular file. @throws {CliError} `usage` for a directory */
async function lengthOf(path: string, file: FileHandle): Promise<number | undefined> {
  const found = await file.stat()
  if (!found.isDirectory()) return found.isFile() ? found.size : undefined
  await file.close()
  throw usageError(`${path}: is a directory`)
}
