import { open, rename } from 'node:fs/promises'

/**
 * Old content or new, never a part of either. Not synced, which would cost more than all else of a start: these
 * files are written anew at each start of a guest or of the agent, so a power cut may spoil them.
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
