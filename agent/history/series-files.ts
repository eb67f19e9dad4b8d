import {
  closeSync,
  constants,
  fsyncSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
  writeSync,
} from 'node:fs'
import { join } from 'node:path'
import { applyWrites, planWrites, seriesBytes, tiers, type Point, type SeriesWrite } from './plan-series.js'

/*
 * This module reads and writes the series files of guests and the host. Calls are synchronous, because the page cache
 * serves them in about 10 µs. The thread pool would take several times as long.
 */

/** Key of the host's own series. The key of a guest's series is its uuid. */
export const hostSeries = 'host'

export class SeriesFiles {
  /** Recorded minutes that are not written yet, by key. */
  readonly pending = new Map<string, Point[]>()

  constructor(private readonly directory: string) {
    mkdirSync(directory, { recursive: true, mode: 0o700 })
  }

  /** Reads a file. If it does not exist, returns zeros, which count as no records. */
  read(key: string): Buffer {
    const series = Buffer.alloc(seriesBytes)
    const found = this.#find(key)
    if (found) found.copy(series, 0, 0, seriesBytes)
    return series
  }

  /** Like `read`, but with the minutes that are not written yet. */
  readLatest(key: string): Buffer {
    const series = this.read(key)
    applyWrites(series, planWrites(tiers.day, this.pending.get(key) ?? []))
    return series
  }

  #find(key: string): Buffer | undefined {
    try {
      return readFileSync(join(this.directory, key))
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
      throw error
    }
  }

  write(key: string, writes: readonly SeriesWrite[]): void {
    const flags = constants.O_RDWR | constants.O_CREAT | constants.O_NOFOLLOW
    const file = openSync(join(this.directory, key), flags, 0o600)
    try {
      for (const { offset, bytes } of writes) writeSync(file, bytes, 0, bytes.length, offset)
    } finally {
      closeSync(file)
    }
  }

  /** Replaces a file. When this returns, the file survives a failure of the host's power. */
  replace(key: string, bytes: Buffer): void {
    const path = join(this.directory, key)
    writeFileSync(`${path}.new`, bytes, { mode: 0o600, flush: true })
    renameSync(`${path}.new`, path)
    const directory = openSync(this.directory, constants.O_RDONLY)
    try {
      fsyncSync(directory)
    } finally {
      closeSync(directory)
    }
  }

  remove(key: string): void {
    rmSync(join(this.directory, key), { force: true })
  }

  keys(): string[] {
    return readdirSync(this.directory)
  }
}
