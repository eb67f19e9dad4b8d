import { dirname } from 'node:path'
import { findDiskNumbers } from './group-facts.js'

/** Finds the disk of each pool and caches the result, because pools do not move and a search reads all mounts. */
export class PoolDisks {
  readonly #byFolder = new Map<string, string | undefined>()

  /** Returns `major:minor` of the disk that holds the volume. Undefined: not known. */
  find(volume: string): string | undefined {
    const folder = dirname(volume)
    if (!this.#byFolder.has(folder)) this.#byFolder.set(folder, findDiskNumbers(volume))
    return this.#byFolder.get(folder)
  }
}
