import type { Readable } from 'node:stream'
import { BerthError } from '../../../../shared/errors.js'

/** Minimum speed of clients. Only the time counts for which the gateway waits for the client. */
export interface MinimumSpeed {
  readonly windowMs: number
  /** Bytes that must arrive in each `windowMs`. */
  readonly bytes: number
  /** Time in ms after which the average since the beginning must be at least `averageBytes` per second. */
  readonly averageAfterMs: number
  readonly averageBytes: number
}

const kib = 1024
export const minimumSpeed: MinimumSpeed = {
  windowMs: 60_000,
  bytes: 256 * kib,
  averageAfterMs: 300_000,
  averageBytes: 64 * kib,
}

/** Number of first bytes of an archive that contain its manifest. */
const headBytes = 256 * 1024

/** The archive in the body of a request. It is read as fast as the host takes it, and never stored as a whole. */
export class ArchiveBody {
  readonly #parts: AsyncIterator<Buffer>
  readonly #gone = new AbortController()
  #head: Buffer = Buffer.alloc(0)
  #received = 0
  #waitedMs = 0
  /** Time in ms spent on waiting for the client since the window began, and bytes that arrived meanwhile. */
  #window = { waitedMs: 0, bytes: 0 }

  constructor(
    body: Readable,
    private readonly speed: MinimumSpeed = minimumSpeed,
  ) {
    this.#parts = body.iterator({ destroyOnReturn: false }) as AsyncIterator<Buffer>
    body.once('close', () => body.readableEnded || this.#gone.abort(brokenOff()))
  }

  /** Aborted when the client disconnects before the end of the body. */
  get signal(): AbortSignal {
    return this.#gone.signal
  }

  get receivedBytes(): number {
    return this.#received
  }

  /** Returns at most `headBytes` bytes, the first of the archive. @throws {BerthError} `invalid_body`, `request_timeout` */
  async head(): Promise<Buffer> {
    const parts = [this.#head]
    for (let length = this.#head.length; length < headBytes;) {
      const part = await this.#next()
      if (!part) break
      parts.push(part)
      length += part.length
    }
    this.#head = Buffer.concat(parts)
    return this.#head.subarray(0, headBytes)
  }

  /** Returns the whole archive. Can be called once. @throws {BerthError} `invalid_body`, `request_timeout` */
  async *parts(): AsyncGenerator<Buffer> {
    yield this.#head
    this.#head = Buffer.alloc(0)
    for (let part = await this.#next(); part; part = await this.#next()) yield part
  }

  /** Stops reading. The rest of the body can then be discarded. */
  close(): void {
    void this.#parts.return?.()
  }

  async #next(): Promise<Buffer | undefined> {
    const startMs = performance.now()
    const next = await this.#unlessSlow(this.#parts.next())
    if (next.done) return undefined
    const { value } = next
    this.#received += value.length
    this.#waitedMs += performance.now() - startMs
    this.#window.bytes += value.length
    this.#checkAverage()
    return value
  }

  /** @throws {BerthError} `request_timeout` */
  #checkAverage(): void {
    const { averageAfterMs, averageBytes } = this.speed
    if (this.#waitedMs < averageAfterMs || this.#received >= (this.#waitedMs / 1000) * averageBytes) return
    throw tooSlow(`it must send at least ${averageBytes} bytes per second on average`)
  }

  /** Waits for the client. @throws {BerthError} `request_timeout` if the client is too slow */
  async #unlessSlow<T>(next: Promise<T>): Promise<T> {
    next.catch(() => undefined) // it can fail after the timeout
    const { windowMs, bytes: least } = this.speed
    for (;;) {
      const startMs = performance.now()
      const leftMs = Math.max(0, windowMs - this.#window.waitedMs)
      const result = await withTimeout(next, leftMs).catch(() => {
        throw brokenOff()
      })
      this.#window.waitedMs += performance.now() - startMs
      if (result !== isLate) return result
      if (this.#window.bytes < least)
        throw tooSlow(`it must send at least ${least} bytes in ${windowMs / 1000} seconds`)
      this.#window = { waitedMs: 0, bytes: 0 }
    }
  }
}

const isLate = Symbol('late')

async function withTimeout<T>(promise: Promise<T>, timeoutMs: number): Promise<T | typeof isLate> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<typeof isLate>((resolve) => (timer = setTimeout(() => resolve(isLate), timeoutMs)))
  return Promise.race([promise, late]).finally(() => clearTimeout(timer))
}

function brokenOff(): BerthError {
  return new BerthError('invalid', 'invalid_body', 'the connection ended before the complete archive was received')
}

function tooSlow(rule: string): BerthError {
  return new BerthError('invalid', 'request_timeout', `the client was too slow: ${rule}`)
}
