import { open, rename } from 'node:fs/promises'
import { dirname } from 'node:path'

/** Old content or new, never a part of either, also after a power cut. */
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
  await syncDirectory(dirname(path))
}

async function syncDirectory(path: string): Promise<void> {
  const directory = await open(path, 'r')
  try {
    await directory.sync()
  } finally {
    await directory.close()
  }
}
