import { constants } from 'node:fs'
import { copyFile, mkdir, open, readdir, readFile, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import type { Logger } from 'pino'
import { BerthError } from '../../shared/errors.js'
import { syncDirectory, writeFileAtomic } from '../../shared/files.js'
import { isTornTail, parseManifest, rebuildManifest } from './plan-aof.js'

/*
 * Repairs append-only files that a power cut has torn, with Redis' own checker. For other damage, the error only names
 * the command to run, because a repair could lose acknowledged data.
 */

/** Runs redis-check-aof if no server is running. @returns its exit code and its output */
export type CheckAof = (args: readonly string[], input: string) => Promise<{ code: number; output: string }>

export interface AofRepairParts {
  /** Directory of the server, which contains `appendonlydir`. */
  readonly directory: string
  readonly log: Logger
  readonly checkAof: CheckAof
}

const manifestName = 'appendonly.aof.manifest'
/** Maximum number of stored copies of damaged files. A file is copied before it is repaired. */
const keptCopies = 4
/** Maximum size in bytes of a damaged end that a power failure explains. A longer damaged end is not repaired. */
const maxTailBytes = 64 * 1024 * 1024

export class AofRepair {
  readonly #files: string
  readonly #manifest: string

  constructor(private readonly parts: AofRepairParts) {
    this.#files = join(parts.directory, 'appendonlydir')
    this.#manifest = join(this.#files, manifestName)
  }

  /**
   * Rebuilds a missing or torn manifest. Call it before each start. Without a manifest, Redis would start empty and
   * overwrite the files.
   * @throws {BerthError} `store_damaged`
   */
  async ensureManifest(): Promise<void> {
    const names = (await namesIn(this.#files)).filter((name) => /\.(base|incr)\./.test(name))
    if (names.length === 0) return
    const listed = parseManifest(await readFile(this.#manifest, 'utf8').catch(() => ''))
    if (listed) return this.#refuseMissing(listed.map(({ name }) => name))
    const text = rebuildManifest(names)
    if (text === undefined)
      throw damaged(
        `${this.#manifest} is damaged, and cannot be rebuilt from the names of the files in the same directory`,
        this.#startEmpty,
      )
    await this.#keepCopy(manifestName).catch(ignoreMissing)
    await writeFileAtomic(this.#manifest, text)
    this.parts.log.warn(
      { manifest: text },
      'store: the manifest of the append-only files was missing or damaged; it was rebuilt from the names of these files',
    )
  }

  #refuseMissing(listed: readonly string[]): Promise<void> {
    return Promise.all(listed.map((name) => stat(join(this.#files, name)))).then(
      () => undefined,
      (cause: unknown) => {
        throw damaged(`${this.#manifest} lists a file that cannot be read`, this.#startEmpty, cause)
      },
    )
  }

  /**
   * Cuts off the torn end of the last file, after storing a copy of this file. Call it after a server could not load
   * its files.
   * @throws {BerthError} `store_damaged` if a power cut does not explain the damage
   */
  async repair(): Promise<void> {
    if ((await namesIn(this.#files)).length === 0) return
    const { code, output } = await this.parts.checkAof([this.#manifest], '')
    if (code === 0) return
    const end = await this.#findEnd(output)
    if (!end) throw damaged(`the files in ${this.#files} are damaged: ${lastLine(output)}`, this.#startEmpty)
    const path = join(this.#files, end.name)
    const where = `${path} is damaged at byte ${end.goodBytes}`
    if (!isTornTail(await readFrom(path, end.goodBytes)))
      throw damaged(
        `${where}; the ${end.cutBytes} bytes after it may contain changes that were confirmed to clients`,
        this.#cutCommand,
      )
    const copy = await this.#keepCopy(end.name)
    const fixed = await this.parts.checkAof(['--fix', this.#manifest], 'y\n')
    if (fixed.code !== 0) throw damaged(`${where}: ${lastLine(fixed.output)}`, this.#cutCommand)
    await syncFile(path)
    const facts = { file: path, cutBytes: end.cutBytes, keptBytes: end.goodBytes, copy }
    this.parts.log.warn(facts, `store: the last ${end.cutBytes} bytes of a file were incomplete and have been cut off`)
  }

  /** Finds the valid length of the last file, if redis-check-aof rejects only this file. */
  async #findEnd(output: string): Promise<{ name: string; goodBytes: number; cutBytes: number } | undefined> {
    const all = [...output.matchAll(/AOF analyzed: filename=(\S+), size=(\d+), ok_up_to=(\d+), .*diff=(\d+)/g)]
    const [, name = '', , goodBytes, cutBytes] = all.at(-1) ?? []
    const listed = parseManifest(await readFile(this.#manifest, 'utf8').catch(() => ''))
    if (!Number(cutBytes) || Number(cutBytes) > maxTailBytes || listed?.at(-1)?.name !== name) return undefined
    return { name, goodBytes: Number(goodBytes), cutBytes: Number(cutBytes) }
  }

  /** Copies a file. @returns the path of the copy */
  async #keepCopy(name: string): Promise<string> {
    const copies = join(this.parts.directory, 'damaged')
    await mkdir(copies, { recursive: true, mode: 0o700 })
    const kept = (await readdir(copies)).sort()
    for (const old of kept.slice(0, Math.max(0, kept.length + 1 - keptCopies))) await rm(join(copies, old))
    const copy = join(copies, `${new Date().toISOString().replaceAll(':', '')}-${name}`)
    await copyFile(join(this.#files, name), copy, constants.COPYFILE_FICLONE).catch(async (cause: unknown) => {
      await rm(copy, { force: true })
      throw cause
    })
    await syncFile(copy)
    await syncDirectory(copies)
    return copy
  }

  get #cutCommand(): string {
    return `restore ${this.parts.directory} from a backup, or drop everything after that byte: yes | redis-check-aof --fix ${quote(this.#manifest)}`
  }

  get #startEmpty(): string {
    const aside = `${this.#files}.damaged`
    return `restore ${this.parts.directory} from a backup, or start with an empty store, which all hosts must join again: mv ${quote(this.#files)} ${quote(aside)}`
  }
}

function damaged(what: string, whatToDo: string, cause?: unknown): BerthError {
  return new BerthError('internal', 'store_damaged', `${what}; ${whatToDo}`, { cause })
}

async function namesIn(directory: string): Promise<string[]> {
  return readdir(directory).catch((cause: NodeJS.ErrnoException) => {
    if (cause.code === 'ENOENT') return []
    throw cause
  })
}

function ignoreMissing(cause: NodeJS.ErrnoException): void {
  if (cause.code !== 'ENOENT') throw cause
}

async function readFrom(path: string, offset: number): Promise<Buffer> {
  const file = await open(path, 'r')
  try {
    const { size } = await file.stat()
    const bytes = Buffer.alloc(Math.max(0, size - offset))
    const { bytesRead } = await file.read(bytes, 0, bytes.length, offset)
    return bytes.subarray(0, bytesRead)
  } finally {
    await file.close()
  }
}

async function syncFile(path: string): Promise<void> {
  const file = await open(path, 'r+')
  try {
    await file.sync()
  } finally {
    await file.close()
  }
}

function lastLine(output: string): string {
  return output.trim().split('\n').at(-1) ?? ''
}

function quote(path: string): string {
  return `'${path.replaceAll("'", "'\\''")}'`
}
