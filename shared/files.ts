import { constants } from 'node:fs'
import { link, mkdir, open, rename, rm } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'

/**
 * Replaces a file atomically. After a crash, the file has either its old or its new content, complete and on disk. A
 * missing directory is created with mode 0700.
 */
export async function writeFileAtomic(path: string, content: string | Buffer, mode = 0o600): Promise<void> {
  const directory = dirname(path)
  await mkdir(directory, { recursive: true, mode: 0o700 })
  const temporary = join(directory, `.${basename(path)}.${process.pid}.${temporaryCount++}.tmp`)
  try {
    await writeSynced(temporary, content, mode)
    await rename(temporary, path)
  } catch (cause) {
    await rm(temporary, { force: true })
    throw cause
  }
  await syncDirectory(directory)
}

/**
 * Creates a file, complete and on disk. Does nothing if the file already exists.
 * @returns true if this call created the file
 */
export async function createFileAtomic(path: string, content: string | Buffer, mode = 0o600): Promise<boolean> {
  const temporary = `${path}.${process.pid}.${temporaryCount++}.new`
  await writeFileAtomic(temporary, content, mode)
  try {
    await link(temporary, path)
    return true
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === 'EEXIST') return false
    throw cause
  } finally {
    await rm(temporary, { force: true })
    await syncDirectory(dirname(path))
  }
}

let temporaryCount = 0

async function writeSynced(path: string, content: string | Buffer, mode: number): Promise<void> {
  // O_EXCL and O_NOFOLLOW prevent writing through a file or link that an attacker placed under the temporary name.
  const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW
  await rm(path, { force: true })
  const file = await open(path, flags, mode)
  try {
    await file.chmod(mode)
    await file.writeFile(content)
    await file.sync()
  } finally {
    await file.close()
  }
}

/** Makes renames and removals in a directory durable (fsync(2) of the directory). */
export async function syncDirectory(path: string): Promise<void> {
  const directory = await open(path, constants.O_RDONLY | constants.O_DIRECTORY)
  try {
    await directory.sync()
  } finally {
    await directory.close()
  }
}
