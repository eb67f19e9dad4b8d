import { constants } from 'node:fs'
import { open, rename } from 'node:fs/promises'
import { openPlain } from './plain-file.js'

/**
 * Replaces a file atomically. Writes nothing if content and mode are already right, so this works even on a full disk.
 * Does not sync, which would cost more than the rest of a start. Guests' and the agent's starts check these files
 * again, so a file that a power cut damaged is replaced then.
 */
export async function replaceFile(path: string, content: string, mode: number): Promise<void> {
  if (await isSo(path, content, mode)) return
  const temporary = `${path}.new`
  const file = await open(temporary, 'w', mode)
  try {
    await file.chmod(mode)
    await file.writeFile(content)
  } finally {
    await file.close()
  }
  await rename(temporary, path)
}

/**
 * Reads only regular files: a volume from a backup may contain a pipe, which would block, or a link to a file of the
 * host.
 */
async function isSo(path: string, content: string, mode: number): Promise<boolean> {
  const file = await openPlain(path, constants.O_RDONLY).catch(() => undefined)
  try {
    const found = await file?.stat()
    if (!file || !found || found.size !== Buffer.byteLength(content)) return false
    return (found.mode & 0o7777) === mode && (await file.readFile('utf8')) === content
  } catch {
    return false // an unreadable file is replaced
  } finally {
    await file?.close()
  }
}
