import { randomBytes } from 'node:crypto'
import { constants } from 'node:fs'
import { open, readdir, rename, type FileHandle } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import type { Logger } from 'pino'
import { SingleFlight } from '../../shared/async/single-flight.js'
import { Coalescer } from '../../shared/async/coalescer.js'
import { clearStaleQgroups, setReadOnly } from '../host/disk/btrfs.js'
import { deleteSubvolume, deleteSubvolumes } from '../host/disk/btrfs-ioctl.js'
import { CommandError } from '../host/process/process.js'
import { findNestedSubvolumes } from './nested.js'
import type { Pool } from './pool.js'

const lullMs = 100

/**
 * The directory of subvolumes that wait for their deletion. A subvolume is removed atomically by its rename into this
 * directory. After a crash, the next sweep deletes the subvolumes that are still in the directory. The rename is not
 * synced: after a power loss, a subvolume can be back at its old path. For this case, the journal remembers removed
 * guests, and `findStrays` removes their subvolumes again.
 */
export class Trash {
  readonly #pool: Pool
  readonly #log: Logger
  readonly #inWork = new Set<string>()
  /** Names of subvolumes that were moved to the trash and wait for their deletion. */
  readonly #waiting: string[] = []
  readonly #emptying = new Coalescer(() => this.#emptyAll())
  #deletions = 1
  /** Value of `#deletions` when all stale qgroups were last removed. If `#deletions` is higher, new ones can exist. */
  #cleared = 0
  readonly #clearing = new SingleFlight()
  /** Error output of the last attempt to remove stale qgroups. Each deletion of a subvolume resets it to ''. */
  #qgroupErrors = ''

  constructor(pool: Pool, log: Logger) {
    this.#pool = pool
    this.#log = log
  }

  /** Moves a subvolume to the trash and deletes it later. A failed deletion is logged; the next sweep repeats it. */
  async discard(path: string): Promise<void> {
    const name = `${basename(path)}.${randomBytes(6).toString('hex')}`
    // Reserves the name before the subvolume is in the trash, so that no sweep deletes it during this call.
    this.#inWork.add(name)
    try {
      await moveSubvolume(path, join(this.#pool.trash, name))
    } catch (error) {
      this.#inWork.delete(name)
      throw error
    }
    this.#waiting.push(name)
    void this.#emptying.run()
  }

  /** Deletes subvolumes of one directory without moving them to the trash. They must not contain other subvolumes. */
  async destroy(directory: string, names: readonly string[]): Promise<void> {
    try {
      await deleteSubvolumes(directory, names)
    } finally {
      this.#noteDeletion()
    }
  }

  /** Resolves when no deletion is running. */
  async settled(): Promise<void> {
    await this.#emptying.settled()
  }

  /** Deletes the waiting subvolumes one at a time. A pause before the first one lets the callers finish their work. */
  async #emptyAll(): Promise<void> {
    await delay(lullMs)
    for (const name of this.#waiting.splice(0)) await this.#empty(name)
  }

  /** Deletes what a crash left in the trash, and qgroups of deleted subvolumes. Called at starts and at intervals. */
  async sweep(): Promise<void> {
    const before = new Set(this.#inWork) // `#inWork` can change during `readdir`, so it is read before and after it
    const names = await readdir(this.#pool.trash)
    const left = names.filter((name) => !before.has(name) && !this.#inWork.has(name))
    // All these subvolumes are claimed before the first deletion, so that another sweep skips them.
    for (const name of left) this.#inWork.add(name)
    for (const name of left) await this.#empty(name)
    if (this.#cleared === this.#deletions) return
    await this.#clearing.run(() => this.#clearQgroups())
  }

  /** Removes qgroups of deleted subvolumes. The qgroup of a deleted image stays while guests share its data. */
  async #clearQgroups(): Promise<void> {
    const deletions = this.#deletions
    const { unfinished, errors } = await clearStaleQgroups(this.#pool.path)
    if (deletions !== this.#deletions) return
    const settled = !unfinished && errors === this.#qgroupErrors
    this.#qgroupErrors = errors
    if (!settled) return
    this.#cleared = deletions
    if (errors !== '') this.#log.info({ errors: errors.slice(0, 1000) }, 'could not remove quota groups')
  }

  /** Deletes one subvolume in the trash, then removes its name from `#inWork`. */
  async #empty(name: string): Promise<void> {
    try {
      await this.#deleteTree(join(this.#pool.trash, name))
    } catch (error) {
      this.#log.warn({ err: error, subvolume: name }, 'a subvolume in the trash could not be deleted')
    } finally {
      this.#noteDeletion()
      this.#inWork.delete(name)
    }
  }

  /** Makes the next sweep of the trash remove the quota groups of deleted subvolumes again. */
  #noteDeletion(): void {
    this.#deletions++
    this.#qgroupErrors = ''
  }

  async #deleteTree(path: string): Promise<void> {
    try {
      await deleteSubvolume(path)
    } catch (error) {
      // Root in a guest can create nested subvolumes. btrfs does not delete a subvolume that contains other subvolumes.
      if (!(error instanceof CommandError) || !error.stderr.includes('Directory not empty')) throw error
      await this.#hoistNested(path)
      await deleteSubvolume(path)
    }
  }

  /** Deletes the subvolumes inside `path` one by one, after moving each to the trash under a generated name. */
  async #hoistNested(path: string): Promise<void> {
    await setReadOnly(path, false)
    for (const nested of await findNestedSubvolumes(path)) {
      const target = join(this.#pool.trash, `nested.${randomBytes(6).toString('hex')}`)
      await moveSubvolume(nested, target)
      await this.#deleteTree(target)
    }
  }
}

/** Renames a subvolume, even a read-only one. @param path a Buffer if a guest chose the name */
async function moveSubvolume(path: string | Buffer, target: string): Promise<void> {
  try {
    await rename(path, target)
  } catch (error) {
    // A guest can make its subvolume read-only. A rename then fails, because the `..` entry cannot change.
    if ((error as NodeJS.ErrnoException).code !== 'EROFS') throw error
    await makeWritable(path)
    await rename(path, target)
  }
}

/** Makes a subvolume writable by its path in /proc, because guests can choose names that no argument can contain. */
async function makeWritable(path: string | Buffer): Promise<void> {
  const flags = constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW
  const directory: FileHandle = await open(path, flags)
  try {
    await setReadOnly(`/proc/${process.pid}/fd/${directory.fd}`, false)
  } finally {
    await directory.close()
  }
}
