import { constants } from 'node:fs'
import { open, rename } from 'node:fs/promises'
import { openPlain } from './plain-file.js'

/**
 * Replaces a file atomically. If content and mode are already right, nothing is written, so this works even on a full
 * disk. The file is not synced, because that would take longer than the rest of a guest's start. Each start of the
 * guest or the agent checks the file, and replaces it if a power loss has damaged it.
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
 * True if the file has this content and mode. Reads only regular files, because a volume from a backup can contain
 * pipes, which would block, and links to files of the host.
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
