import { syncDirectory } from '../../shared/files.js'

/**
 * Makes what changed in a directory survive a power loss. Calls that come while one is under way share the next:
 * a hundred deletions at once cost a few commits. fsync is
 * enough for subvolumes too: btrfs commits the whole transaction where one was renamed (linux: btrfs_rename(),
 * "force full log commit if subvolume involved"), and where nothing changed it costs nothing.
 */
export class DirectoryCommit {
  #current: Promise<void> | undefined
  #next: Promise<void> | undefined

  constructor(
    private readonly path: string,
    private readonly sync: (path: string) => Promise<void> = syncDirectory,
  ) {}

  /** @returns when all changes made before the call are on the disk */
  commit(): Promise<void> {
    if (!this.#current) return this.#begin()
    // The one under way may have begun before the change that is to be kept.
    this.#next ??= this.#current.catch(() => undefined).then(() => this.#begin())
    return this.#next
  }

  #begin(): Promise<void> {
    this.#next = undefined
    const current = this.sync(this.path).finally(() => {
      if (this.#current === current) this.#current = undefined
    })
    this.#current = current
    return current
  }
}
