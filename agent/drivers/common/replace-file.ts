import { open, rename } from 'node:fs/promises'

/**
 * Replaces a file atomically. It is not synced, which would cost more than the rest of a start: these files are
 * rewritten at each start of a guest or of the agent, so a power cut may damage them.
 */
export async function replaceFile(path: string, content: string, mode: number): Promise<void> {
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
