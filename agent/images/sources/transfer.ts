import { createWriteStream } from 'node:fs'
import { readFile, stat, statfs, writeFile } from 'node:fs/promises'
import { dirname } from 'node:path'
import { Transform } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { setTimeout as delay } from 'node:timers/promises'
import { BerthError } from '../../../shared/errors.js'
import { OutboundError, type OutboundAnswer, type OutboundClient } from '../../../shared/outbound-request.js'
import { parseTargetUrl, type TargetPolicy } from '../../../shared/outbound-targets.js'
import { readBootId } from '../../host/process/proc.js'
import { rangeSize, rangeStart, totalOf, validatorOf } from './range-answer.js'

export interface DownloadOrder {
  readonly url: string
  /** Expected SHA-256 in hexadecimal. Empty: unknown. */
  readonly sha256: string
  readonly maxBytes: number
  /** Path of the file. If it contains data of an earlier attempt at the same URL, the download continues it. */
  readonly file: string
}

export interface DownloadProgress {
  readonly receivedBytes: number
  /** Total size in bytes. 0: the server does not report it. */
  readonly totalBytes: number
  readonly bytesPerSec: number
}

export type Report = (progress: DownloadProgress) => void

/** Maximum number of failed attempts in a row that each received less than `leastBytes`. */
const mostFailures = 5
/** A server is treated as silent if it sends fewer bytes than this within `patienceMs`. */
const leastBytes = 64 * 1024

interface TransferParts {
  readonly policy: TargetPolicy
  readonly readOwn: () => readonly string[]
  readonly pauseMs: number
  readonly patienceMs: number
  readonly client: OutboundClient
  readonly report: Report
  readonly signal: AbortSignal
}

/** Content of the note next to a partially downloaded file. It identifies the version that is being downloaded. */
interface Note {
  readonly url: string
  readonly validator: string
  /** Boot id of the host. After a reboot, the partial file can have holes, because it is not synced. */
  readonly bootId: string
}

/** Downloads one file, and continues after broken connections. */
export class Transfer {
  #beganMs = 0
  #beganAt = 0

  constructor(
    private readonly order: DownloadOrder,
    private readonly parts: TransferParts,
  ) {}

  /** Downloads the bytes that the file lacks. @returns true if the file contains bytes of an earlier download */
  async complete(): Promise<boolean> {
    const before = await sizeOf(this.order.file)
    const resumed = before > 0
    for (let [failures, reached] = [0, before]; ;) {
      try {
        await this.#attempt()
        return resumed
      } catch (error) {
        this.parts.signal.throwIfAborted()
        if (error instanceof BerthError) throw error
        const size = await sizeOf(this.order.file)
        const moved = size >= reached + leastBytes
        failures = moved ? 1 : failures + 1
        if (moved) reached = size
        if (failures > mostFailures || isFinal(error)) throw failure(error)
        await delay(this.parts.pauseMs * 2 ** (failures - 1), undefined, { signal: this.parts.signal })
      }
    }
  }

  async #attempt(): Promise<void> {
    const { file } = this.order
    const note = await this.#usableNote()
    const from = note ? await sizeOf(file) : 0
    const answer = await this.#ask(from > 0 && note ? { from, validator: note.validator } : undefined)
    try {
      await this.#take(answer, from)
    } finally {
      answer.body.destroy()
    }
  }

  async #take(answer: OutboundAnswer, from: number): Promise<void> {
    const { file, url } = this.order
    if (![200, 206, 416].includes(answer.status)) throw new HttpStatusError(answer.status)
    if (answer.status === 416 && rangeSize(answer) === from) return
    const start = answer.status === 206 && rangeStart(answer) === from ? from : 0
    if (answer.status === 206 && start !== from)
      throw new Error('the server returned a different range of bytes than requested')
    const total = totalOf(answer, start)
    await this.#checkRoom(total, start)
    await writeFile(noteOf(file), JSON.stringify({ url, validator: validatorOf(answer), bootId: readBootId() }))
    await this.#receive(answer, { start, total })
    const size = await sizeOf(file)
    if (total > 0 && size !== total) throw new Error(`the connection ended after ${size} of ${total} bytes`)
  }

  /** Reads the note next to the partial download. Undefined: the download cannot be continued. */
  async #usableNote(): Promise<Note | undefined> {
    try {
      const note = JSON.parse(await readFile(noteOf(this.order.file), 'utf8')) as Note
      const isUsable = note.url === this.order.url && note.validator !== '' && note.bootId === readBootId()
      return isUsable ? note : undefined
    } catch {
      return undefined // the note is missing, or was truncated by a crash
    }
  }

  /** Sends a request and follows redirects. Each target is checked like the first URL. */
  #ask(range: { from: number; validator: string } | undefined): Promise<OutboundAnswer> {
    const { client, signal } = this.parts
    const headers = {
      'accept-encoding': 'identity',
      'user-agent': 'berth-agent',
      ...(range ? { range: `bytes=${range.from}-`, 'if-range': range.validator } : {}),
    }
    return client.follow(this.#checked(this.order.url), { signal, headers }, (url) => this.#checked(url))
  }

  /** Checks a URL, and its host if this is an address. A host name is checked when it is resolved. */
  #checked(url: string): URL {
    return parseTargetUrl(url, this.parts.policy, this.parts.readOwn())
  }

  async #checkRoom(total: number, start: number): Promise<void> {
    if (total > this.order.maxBytes) throw tooLarge(this.order.maxBytes)
    const { bavail, bsize } = await statfs(dirname(this.order.file))
    if (total - start > bavail * bsize)
      throw new BerthError(
        'exhausted',
        'storage_full',
        `the storage pool of the host has no space for ${total - start} more bytes`,
      )
  }

  async #receive({ body }: OutboundAnswer, { start, total }: { start: number; total: number }): Promise<void> {
    const { report, patienceMs } = this.parts
    const { maxBytes, file } = this.order
    let receivedBytes = start
    this.#beganAt = start
    this.#beganMs = performance.now()
    const count = new Transform({
      transform: (chunk: Buffer, _, done) => {
        receivedBytes += chunk.length
        if (receivedBytes > maxBytes) return done(tooLarge(maxBytes))
        report({ receivedBytes, totalBytes: total, bytesPerSec: this.#speed(receivedBytes) })
        done(null, chunk)
      },
    })
    const sink = createWriteStream(file, { flags: start > 0 ? 'a' : 'w' })
    const closed = new Promise<void>((resolve) => sink.once('close', resolve)) // awaited: a write can outlast an abort
    const pace = new Pace(() => receivedBytes, patienceMs)
    const signal = AbortSignal.any([this.parts.signal, pace.signal])
    try {
      await pipeline(body, count, sink, { signal })
    } finally {
      pace.close()
      await closed
    }
  }

  #speed(receivedBytes: number): number {
    const seconds = (performance.now() - this.#beganMs) / 1000
    return seconds < 0.2 ? 0 : Math.round((receivedBytes - this.#beganAt) / seconds)
  }
}

class HttpStatusError extends Error {
  constructor(readonly status: number) {
    super(`the server answered HTTP ${status}`)
  }
}

/** True if every further attempt would fail for the same reason. */
function isFinal(error: unknown): boolean {
  if (['ENOSPC', 'EDQUOT'].includes((error as NodeJS.ErrnoException).code ?? '')) return true
  if (error instanceof OutboundError) return error.code === 'too_many_redirects'
  return error instanceof HttpStatusError && error.status < 500 && error.status !== 429 && error.status !== 408
}

function failure(cause: unknown): BerthError {
  if (['ENOSPC', 'EDQUOT'].includes((cause as NodeJS.ErrnoException).code ?? ''))
    return new BerthError('exhausted', 'storage_full', 'the storage pool of the host is full', { cause })
  return new BerthError('unavailable', 'download_failed', 'the download failed', { cause })
}

function tooLarge(maxBytes: number): BerthError {
  return new BerthError('exhausted', 'download_too_large', `the file is larger than ${maxBytes} bytes`)
}

async function sizeOf(file: string): Promise<number> {
  return stat(file).then(
    ({ size }) => size,
    () => 0,
  )
}

/** Returns the path of the note that identifies the version of a partially downloaded file. */
export const noteOf = (file: string): string => `${file}.json`

/** Aborts `signal` if fewer than `leastBytes` arrive within `patienceMs`. */
class Pace {
  readonly #abort = new AbortController()
  readonly #timer: NodeJS.Timeout

  constructor(readBytes: () => number, patienceMs: number) {
    let before = readBytes()
    this.#timer = setInterval(() => {
      const now = readBytes()
      if (now - before < leastBytes) this.#abort.abort(new Error('the server is too slow'))
      before = now
    }, patienceMs)
  }

  get signal(): AbortSignal {
    return this.#abort.signal
  }

  close(): void {
    clearInterval(this.#timer)
  }
}
