import { createHash } from 'node:crypto'
import { lookup as systemLookup, type LookupAddress } from 'node:dns'
import { createReadStream, createWriteStream } from 'node:fs'
import { readFile, rm, stat, statfs, writeFile } from 'node:fs/promises'
import type { LookupFunction } from 'node:net'
import { networkInterfaces } from 'node:os'
import { dirname } from 'node:path'
import { Transform } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { setTimeout as delay } from 'node:timers/promises'
import { Agent, request, type Dispatcher } from 'undici'
import { BerthError } from '../../../shared/errors.js'
import { checkTarget, parseImageUrl, type TargetPolicy } from './targets.js'

export interface DownloadOrder {
  readonly url: string
  /** Hexadecimal; empty: none is known. */
  readonly sha256: string
  readonly maxBytes: number
  /** Where it goes. What is there of an earlier attempt at the same URL is gone on with. */
  readonly file: string
}

export interface DownloadProgress {
  readonly receivedBytes: number
  /** 0: the server does not say. */
  readonly totalBytes: number
  readonly bytesPerSec: number
}

export interface DownloadParts {
  readonly policy: TargetPolicy
  /** Default: the host's. */
  readonly lookup?: typeof systemLookup
  /** Before the first repetition; each failure in a row doubles it. */
  readonly pauseMs?: number
}

type Report = (progress: DownloadProgress) => void
type Response = Dispatcher.ResponseData

const mostRedirects = 5
/** In a row without a byte more. */
const mostFailures = 5
const timeouts = { connectMs: 20_000, headersMs: 30_000, bodyMs: 30_000 }

/**
 * Downloads a file, goes on after a broken connection and after a restart, and checks it. The file is complete and has
 * the checksum when this returns.
 * @returns its SHA-256 in hexadecimal
 * @throws {BerthError} `invalid_field` (a target that may not be asked, in the URL or a redirect), `download_failed`,
 * `download_too_large`, `checksum_mismatch`, `storage_full`; the signal's reason when aborted
 */
export async function download(
  order: DownloadOrder,
  { policy, lookup = systemLookup, pauseMs = 500 }: DownloadParts,
  report: Report,
  signal: AbortSignal,
): Promise<string> {
  const dispatcher = new Agent({
    connect: { lookup: checkedLookup(policy, lookup), timeout: timeouts.connectMs },
    headersTimeout: timeouts.headersMs,
    bodyTimeout: timeouts.bodyMs,
  })
  const transfer = new Transfer(order, { policy, pauseMs, dispatcher, report, signal })
  try {
    const resumed = await transfer.complete()
    return await verified(order, async () => {
      if (!resumed) return false
      await discardDownload(order.file) // what was there before may have been another file's
      await transfer.complete()
      return true
    })
  } finally {
    await dispatcher.destroy()
  }
}

/** Removes a file, whole or not, with what is remembered of it. */
export async function discardDownload(file: string): Promise<void> {
  await rm(file, { force: true })
  await rm(noteOf(file), { force: true })
}

async function verified(order: DownloadOrder, again: () => Promise<boolean>): Promise<string> {
  const found = await hashOf(order.file)
  if (order.sha256 === '' || found === order.sha256.toLowerCase()) return found
  if (await again()) return verified(order, async () => false)
  await discardDownload(order.file)
  throw new BerthError('unavailable', 'checksum_mismatch', `SHA-256 is ${found}, not ${order.sha256}`)
}

async function hashOf(file: string): Promise<string> {
  const hash = createHash('sha256')
  await pipeline(createReadStream(file, { highWaterMark: 1 << 20 }), hash)
  return hash.digest('hex')
}

/** Names are looked up once, and what was checked is what is connected to. */
function checkedLookup(policy: TargetPolicy, lookup: typeof systemLookup): LookupFunction {
  return (hostname, options, done) => {
    lookup(hostname, { ...options, all: true }, (error, found) => {
      if (error) return done(error, [], 0)
      const addresses: LookupAddress[] = Array.isArray(found) ? found : []
      try {
        for (const { address } of addresses) checkTarget(address, policy, ownAddresses())
      } catch (refusal) {
        return done(refusal as NodeJS.ErrnoException, [], 0)
      }
      if (options.all) return done(null, addresses)
      done(null, addresses[0]?.address ?? '', addresses[0]?.family ?? 0)
    })
  }
}

function ownAddresses(): string[] {
  return Object.values(networkInterfaces()).flatMap((list = []) => list.map(({ address }) => address))
}

interface TransferParts {
  readonly policy: TargetPolicy
  readonly pauseMs: number
  readonly dispatcher: Dispatcher
  readonly report: Report
  readonly signal: AbortSignal
}

/** Of which version of the file the bytes are. */
interface Note {
  readonly url: string
  readonly validator: string
}

class Transfer {
  #beganMs = 0
  #beganAt = 0

  constructor(
    private readonly order: DownloadOrder,
    private readonly parts: TransferParts,
  ) {}

  /** @returns whether bytes of an earlier download are in it */
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
        failures = size > reached ? 1 : failures + 1
        reached = size
        if (failures > mostFailures || isFinal(error)) throw failure(error)
        await delay(this.parts.pauseMs * 2 ** (failures - 1), undefined, { signal: this.parts.signal })
      }
    }
  }

  async #attempt(): Promise<void> {
    const { file } = this.order
    const note = await this.#usableNote()
    const from = note ? await sizeOf(file) : 0
    const response = await this.#ask(from > 0 && note ? { from, validator: note.validator } : undefined)
    if (response.statusCode === 416 && rangeSize(response) === from) return response.body.dump()
    const start = response.statusCode === 206 && rangeStart(response) === from ? from : 0
    if (response.statusCode === 206 && start !== from) throw new Error('the server sends another range')
    const total = totalOf(response, start)
    await this.#checkRoom(total, start)
    await writeFile(noteOf(file), JSON.stringify({ url: this.order.url, validator: validatorOf(response) }))
    await this.#receive(response, { start, total })
    const size = await sizeOf(file)
    if (total > 0 && size !== total) throw new Error(`the connection ended after ${size} of ${total} bytes`)
  }

  /** Without a validator the server cannot say whether it is the same file still. */
  async #usableNote(): Promise<Note | undefined> {
    try {
      const note = JSON.parse(await readFile(noteOf(this.order.file), 'utf8')) as Note
      return note.url === this.order.url && note.validator !== '' ? note : undefined
    } catch {
      return undefined // there is none, or a crash cut it
    }
  }

  /** Follows redirects, each of which is checked as the first URL is. */
  async #ask(range: { from: number; validator: string } | undefined): Promise<Response> {
    const { policy, dispatcher, signal } = this.parts
    const headers = {
      'accept-encoding': 'identity',
      'user-agent': 'berth-agent',
      ...(range ? { range: `bytes=${range.from}-`, 'if-range': range.validator } : {}),
    }
    let url = parseImageUrl(this.order.url, policy)
    for (let redirects = 0; redirects <= mostRedirects; redirects++) {
      const response = await request(url, { dispatcher, signal, headers })
      const location = isRedirect(response.statusCode) ? response.headers.location : undefined
      if (typeof location !== 'string') return await accepted(response)
      await response.body.dump()
      url = parseImageUrl(new URL(location, url).href, policy)
    }
    throw new BerthError('unavailable', 'download_failed', `more than ${mostRedirects} redirects`)
  }

  async #checkRoom(total: number, start: number): Promise<void> {
    if (total > this.order.maxBytes) throw tooLarge(this.order.maxBytes)
    const { bavail, bsize } = await statfs(dirname(this.order.file))
    if (total - start > bavail * bsize)
      throw new BerthError('exhausted', 'storage_full', `no room for ${total - start} bytes more`)
  }

  async #receive(response: Response, { start, total }: { start: number; total: number }): Promise<void> {
    const { report, signal } = this.parts
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
    const closed = new Promise<void>((resolve) => sink.once('close', resolve)) // after an abort, a write may still be under way
    await pipeline(response.body, count, sink, { signal }).finally(() => closed)
  }

  #speed(receivedBytes: number): number {
    const seconds = (performance.now() - this.#beganMs) / 1000
    return seconds < 0.2 ? 0 : Math.round((receivedBytes - this.#beganAt) / seconds)
  }
}

async function accepted(response: Response): Promise<Response> {
  if ([200, 206, 416].includes(response.statusCode)) return response
  await response.body.dump() // bounded
  throw new HttpStatusError(response.statusCode)
}

class HttpStatusError extends Error {
  constructor(readonly status: number) {
    super(`the server answered HTTP ${status}`)
  }
}

/** Another attempt gets the same. */
function isFinal(error: unknown): boolean {
  if (['ENOSPC', 'EDQUOT'].includes((error as NodeJS.ErrnoException).code ?? '')) return true
  return (
    error instanceof HttpStatusError && error.status < 500 && error.status !== 429 && error.status !== 408
  )
}

function failure(cause: unknown): BerthError {
  if (['ENOSPC', 'EDQUOT'].includes((cause as NodeJS.ErrnoException).code ?? ''))
    return new BerthError('exhausted', 'storage_full', 'the pool is full', { cause })
  return new BerthError('unavailable', 'download_failed', 'the download failed', { cause })
}

function tooLarge(maxBytes: number): BerthError {
  return new BerthError('exhausted', 'download_too_large', `larger than ${maxBytes} bytes`)
}

function isRedirect(status: number): boolean {
  return [301, 302, 303, 307, 308].includes(status)
}

/** Strong validators only: RFC 9110, 13.1.5. */
function validatorOf({ headers }: Response): string {
  const { etag, 'last-modified': modified } = headers
  if (typeof etag === 'string' && !etag.startsWith('W/')) return etag
  return typeof modified === 'string' ? modified : ''
}

function totalOf(response: Response, start: number): number {
  if (response.statusCode === 206) return rangeSize(response)
  const length = Number(response.headers['content-length'] ?? 0)
  return Number.isSafeInteger(length) && length > 0 ? start + length : 0
}

function rangeStart({ headers }: Response): number {
  return Number(/^bytes (\d+)-/.exec(text(headers['content-range']))?.[1] ?? NaN)
}

function rangeSize({ headers }: Response): number {
  return Number(/\/(\d+)$/.exec(text(headers['content-range']))?.[1] ?? 0)
}

function text(header: string | string[] | undefined): string {
  return typeof header === 'string' ? header : ''
}

async function sizeOf(file: string): Promise<number> {
  return stat(file).then(
    ({ size }) => size,
    () => 0,
  )
}

const noteOf = (file: string): string => `${file}.json`
