import { constants } from 'node:fs'
import { open, type FileHandle } from 'node:fs/promises'

/**
 * What is in a volume may be from a backup of anybody's: a link or a device would be the host's.
 * @throws {Error} also where it is no file of its own
 */
export async function openPlain(path: string, flags: number): Promise<FileHandle> {
  const file = await open(path, flags | constants.O_NOFOLLOW | constants.O_NONBLOCK)
  const found = await file.stat()
  if (found.isFile() && found.nlink === 1) return file
  await file.close()
  throw new Error(`${path} is not a plain file`)
}

/** @returns undefined where there is no plain file, or a larger one */
export async function readPlainText(path: string, mostBytes: number): Promise<string | undefined> {
  const file = await openPlain(path, constants.O_RDONLY).catch(() => undefined)
  try {
    const size = (await file?.stat())?.size ?? 0
    return file && size <= mostBytes ? await file.readFile('utf8') : undefined
  } finally {
    await file?.close()
  }
}
