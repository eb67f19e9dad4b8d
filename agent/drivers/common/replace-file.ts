import { open, readFile, rename, stat } from 'node:fs/promises'

/**
 * Replaces a file atomically, unless it has the content and mode already: nothing is written then, on a full disk either.
 * It is not synced, which would cost more than the rest of a start: these files are looked at at each start of a guest or
 * of the agent, so one that a power cut damaged is replaced.
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

async function isSo(path: string, content: string, mode: number): Promise<boolean> {
  try {
    const [present, { mode: bits }] = await Promise.all([readFile(path, 'utf8'), stat(path)])
    return present === content && (bits & 0o7777) === mode
  } catch {
    return false // then it is made
  }
}
