import { dirname } from 'node:path'
import { findDiskNumbers } from './group-facts.js'

/** Finds the disk of each pool once: it does not move while the agent runs, and each search reads all mounts. */
export class PoolDisks {
  readonly #byFolder = new Map<string, string | undefined>()

  /** @returns `major:minor` of the disk that has the volume; undefined: unknown */
  find(volume: string): string | undefined {
    const folder = dirname(volume)
    if (!this.#byFolder.has(folder)) this.#byFolder.set(folder, findDiskNumbers(volume))
    return this.#byFolder.get(folder)
  }
}
