import { constants } from 'node:fs'
import { copyFile, lstat, mkdir, open, rm, symlink } from 'node:fs/promises'
import { join } from 'node:path'
import { Parser, type ReadEntry } from 'tar'
import { CliError, exitCodes } from '../errors.js'
import { planEntry, type EntryStep, type CopySource } from './plan-entry.js'

export interface UnpackOptions extends CopySource {
  /** Path that the requested file or directory gets on this machine. */
  readonly target: string
  /** Called for each entry that is not copied. */
  onSkip(path: string, reason: string): void
}

/**
 * Writes the files of an archive that a guest sends. Nothing is written outside the target, whatever the archive contains:
 * each path is checked, and links are never followed.
 */
export class Unpacker {
  readonly #parser: Parser
  /** Resolves when all entries received so far were written. */
  #work: Promise<void> = Promise.resolve()
  #failed: Promise<never>
  /** Paths of files that were written. */
  readonly #files = new Set<string>()
  #hasEntry = false
  #isComplete = false
  /** First bytes of the archive. */
  #head = Buffer.alloc(0)

  constructor(private readonly options: UnpackOptions) {
    this.#parser = new Parser({ strict: true, onReadEntry: (entry) => this.#later(entry) })
    this.#parser.on('eof', () => (this.#isComplete = true))
    this.#parser.on('ignoredEntry', ({ path, meta }: ReadEntry) => {
      if (!meta) options.onSkip(path, 'it has an unknown type')
    })
    this.#failed = new Promise((_, reject) => {
      this.#parser.on('error', (cause: Error) => reject(badArchive(cause)))
      this.#fail = reject
    })
    this.#failed.catch(() => undefined) // each call of `write` and `end` reports the error
  }

  #fail: (error: Error) => void = () => undefined

  /** Processes a part of the archive. Resolves when the caller can pass the next part. @throws {CliError} `failed` */
  async write(bytes: Buffer): Promise<void> {
    if (this.#isComplete) return // the parser would store everything that follows the archive
    this.#refuseCompressed(bytes)
    const ready = new Promise<void>((resolve) => {
      if (this.#parser.write(bytes)) resolve()
      else this.#parser.once('drain', resolve)
    })
    await Promise.race([ready, this.#failed])
  }

  /** Refuses a compressed archive, because the parser decompresses without a size limit. @throws {CliError} `failed` */
  #refuseCompressed(bytes: Buffer): void {
    if (this.#head.length >= 4) return
    this.#head = Buffer.concat([this.#head, bytes.subarray(0, 4)])
    if (/^(1f8b|28b52ffd)/.test(this.#head.toString('hex'))) throw badArchive(new Error('it is compressed'))
  }

  /** Resolves when everything was written. @throws {CliError} `failed` */
  async end(): Promise<void> {
    const ended = new Promise<void>((resolve) => this.#parser.once('end', resolve))
    this.#parser.end()
    await Promise.race([ended, this.#failed])
    await Promise.race([this.#work, this.#failed])
    if (!this.#hasEntry) throw badArchive(new Error('it is empty'))
  }

  #later(entry: ReadEntry): void {
    this.#hasEntry = true
    this.#work = this.#work.then(() => this.#take(entry))
    this.#work.catch(this.#fail)
  }

  async #take(entry: ReadEntry): Promise<void> {
    const step = planEntry(entry, this.options)
    if (step.do === 'skip') this.options.onSkip(entry.path, step.reason)
    else await this.#apply(step, entry)
    entry.resume() // discards content that was not read
  }

  async #apply(step: Exclude<EntryStep, { do: 'skip' }>, entry: ReadEntry): Promise<void> {
    const { target } = this.options
    const path = join(target, ...step.path)
    for (let depth = 0; depth < step.path.length; depth++)
      await ensureDirectory(join(target, ...step.path.slice(0, depth)))
    if (step.do === 'directory') return ensureDirectory(path, step.mode)
    if (step.do === 'copy' && !this.#files.has(join(target, ...step.from)))
      return this.options.onSkip(entry.path, 'it is a link to a file that was not copied')
    if (step.do === 'copy' && step.from.join('/') === step.path.join('/')) return
    await removeFormer(path)
    this.#files.delete(path)
    if (step.do === 'link') return symlink(step.to, path)
    if (step.do === 'copy') await copyFile(join(target, ...step.from), path, constants.COPYFILE_EXCL)
    else await writeEntry(path, step.mode, entry)
    this.#files.add(path)
  }
}

async function writeEntry(path: string, mode: number, entry: ReadEntry): Promise<void> {
  const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW
  const file = await open(path, flags, mode)
  try {
    for await (const chunk of entry) await file.writeFile(chunk)
  } finally {
    await file.close()
  }
}

/** Creates a directory, unless it exists. A link to a directory is refused. @throws {CliError} `failed` */
async function ensureDirectory(path: string, mode = 0o777): Promise<void> {
  const found = await findFile(path)
  if (!found) return void (await mkdir(path, { mode }))
  if (!found.isDirectory()) throw new CliError(exitCodes.failed, `${path} exists and is not a directory`)
}

/** Removes an existing file or link in the place of a new entry. @throws {CliError} `failed` */
async function removeFormer(path: string): Promise<void> {
  const found = await findFile(path)
  if (!found) return
  if (!found.isFile() && !found.isSymbolicLink())
    throw new CliError(exitCodes.failed, `${path} exists and is not a file`)
  await rm(path)
}

async function findFile(path: string) {
  try {
    return await lstat(path)
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw cause
  }
}

function badArchive(cause: Error): CliError {
  return new CliError(exitCodes.failed, `the archive from the guest is invalid: ${cause.message}`)
}
