import { randomBytes } from 'node:crypto'
import { constants } from 'node:fs'
import { open, readdir, rename, type FileHandle } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import type { Logger } from 'pino'
import { clearStaleQgroups, setReadOnly } from '../host/btrfs.js'
import { deleteSubvolume, deleteSubvolumes } from '../host/btrfs-ioctl.js'
import { CommandError } from '../host/process.js'
import { findNestedSubvolumes } from './nested.js'
import type { Pool } from './pool.js'

const lullMs = 100

/**
 * Where subvolumes go to be deleted. The rename is what removes them: atomic and immediate. What a crash leaves here
 * is deleted by the next sweep. After a power loss one may be where it was: nothing waits for the disk, the journal
 * remembers who was removed (Reconciler).
 */
export class Trash {
  readonly #pool: Pool
  readonly #log: Logger
  readonly #inWork = new Set<string>()
  /** Moved here and not deleted yet. */
  readonly #waiting: string[] = []
  #emptying: Promise<void> | undefined
  #deletions = 1
  /** Deletions of which all qgroups are gone that can go. */
  #cleared = 0
  #clearing: Promise<void> | undefined
  /** Of the last attempt since the last deletion. */
  #qgroupErrors = ''

  constructor(pool: Pool, log: Logger) {
    this.#pool = pool
    this.#log = log
  }

  /** Takes the subvolume away and deletes it afterwards; a deletion that fails is logged and left to the sweep. */
  async discard(path: string): Promise<void> {
    const name = `${basename(path)}.${randomBytes(6).toString('hex')}`
    this.#inWork.add(name) // before it is there: a sweep leaves it alone
    try {
      await moveSubvolume(path, join(this.#pool.trash, name))
    } catch (error) {
      this.#inWork.delete(name)
      throw error
    }
    this.#waiting.push(name)
    this.#emptying ??= this.#emptyAll().finally(() => (this.#emptying = undefined))
  }

  /** Deletes subvolumes of one directory where they are; for those that cannot have others inside. */
  async destroy(directory: string, names: readonly string[]): Promise<void> {
    try {
      await deleteSubvolumes(directory, names)
    } finally {
      this.#noteDeletion()
    }
  }

  /** Once nothing is being deleted any more. */
  async settled(): Promise<void> {
    await this.#emptying
  }

  /** One at a time, and not beside what whoever deletes is waiting for. */
  async #emptyAll(): Promise<void> {
    do {
      await delay(lullMs)
      for (const name of this.#waiting.splice(0)) await this.#empty(name)
    } while (this.#waiting.length > 0)
  }

  /** Deletes what is left here, and the qgroups of subvolumes that are gone; for starts and now and then. */
  async sweep(): Promise<void> {
    const before = new Set(this.#inWork) // may go while the directory is read
    const names = await readdir(this.#pool.trash)
    const left = names.filter((name) => !before.has(name) && !this.#inWork.has(name))
    // At once, before anything is awaited: another sweep meanwhile leaves them to this one.
    for (const name of left) this.#inWork.add(name)
    for (const name of left) await this.#empty(name)
    if (this.#cleared === this.#deletions) return
    this.#clearing ??= this.#clearQgroups().finally(() => (this.#clearing = undefined))
    await this.#clearing
  }

  /** Those that go on failing are an image's, which others share until the last guest made of it is deleted. */
  async #clearQgroups(): Promise<void> {
    const deletions = this.#deletions
    const { unfinished, errors } = await clearStaleQgroups(this.#pool.path)
    if (deletions !== this.#deletions) return
    const settled = !unfinished && errors === this.#qgroupErrors
    this.#qgroupErrors = errors
    if (!settled) return
    this.#cleared = deletions
    if (errors !== '') this.#log.info({ errors: errors.slice(0, 1000) }, 'quota groups stay')
  }

  /** @param name in work; no longer when this returns */
  async #empty(name: string): Promise<void> {
    try {
      await this.#deleteTree(join(this.#pool.trash, name))
    } catch (error) {
      this.#log.warn({ err: error, subvolume: name }, 'subvolume left in the trash')
    } finally {
      this.#noteDeletion()
      this.#inWork.delete(name)
    }
  }

  /** Quota groups are looked at anew. */
  #noteDeletion(): void {
    this.#deletions++
    this.#qgroupErrors = ''
  }

  async #deleteTree(path: string): Promise<void> {
    try {
      await deleteSubvolume(path)
    } catch (error) {
      // Root in a guest can make subvolumes inside its own; one with others inside cannot be deleted.
      if (!(error instanceof CommandError) || !error.stderr.includes('Directory not empty')) throw error
      await this.#hoistNested(path)
      await deleteSubvolume(path)
    }
  }

  /** Out of the reach of the names that the guest gave them, each to be deleted by itself. */
  async #hoistNested(path: string): Promise<void> {
    await setReadOnly(path, false)
    for (const nested of await findNestedSubvolumes(path)) {
      const target = join(this.#pool.trash, `nested.${randomBytes(6).toString('hex')}`)
      await moveSubvolume(nested, target)
      await this.#deleteTree(target)
    }
  }
}

/** @param path as bytes where a guest chose it */
async function moveSubvolume(path: string | Buffer, target: string): Promise<void> {
  try {
    await rename(path, target)
  } catch (error) {
    // The owner of a subvolume may make it read-only, and then its `..` cannot change.
    if ((error as NodeJS.ErrnoException).code !== 'EROFS') throw error
    await makeWritable(path)
    await rename(path, target)
  }
}

/** Arguments cannot carry every name a guest can give: the directory is named by a descriptor. */
async function makeWritable(path: string | Buffer): Promise<void> {
  const flags = constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW
  const directory: FileHandle = await open(path, flags)
  try {
    await setReadOnly(`/proc/${process.pid}/fd/${directory.fd}`, false)
  } finally {
    await directory.close()
  }
}
