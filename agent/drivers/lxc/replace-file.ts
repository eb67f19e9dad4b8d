import { open, rename } from 'node:fs/promises'

/** Old content or new, never a part of either, also after a power cut; which of them is not promised. */
export async function replaceFile(path: string, content: string, mode: number): Promise<void> {
  const temporary = `${path}.new`
  const file = await open(temporary, 'w', mode)
  try {
    await file.chmod(mode)
    await file.writeFile(content)
    await file.sync()
  } finally {
    await file.close()
  }
  await rename(temporary, path)
}
