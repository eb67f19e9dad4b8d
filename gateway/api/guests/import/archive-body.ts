import type { Readable } from 'node:stream'
import { BerthError } from '../../../../shared/errors.js'

/** Minimum speed of clients: in `windowMs` of waiting for the client, at least `bytes` must arrive. */
export interface MinimumSpeed {
  readonly windowMs: number
  readonly bytes: number
}

export const minimumSpeed: MinimumSpeed = { windowMs: 60_000, bytes: 256 * 1024 }

/** The first bytes of an archive, which contain its manifest. */
const headBytes = 256 * 1024

/** The archive in the body of a request. It is read as fast as the host takes it, and never stored as a whole. */
export class ArchiveBody {
  readonly #parts: AsyncIterator<Buffer>
  readonly #gone = new AbortController()
  #head: Buffer = Buffer.alloc(0)
  #received = 0
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

  /** Returns the first bytes of the archive. @throws {BerthError} `invalid_body`, `request_timeout` */
  async head(): Promise<Buffer> {
    const parts = [this.#head]
    for (let length = this.#head.length; length < headBytes;) {
      const part = await this.#next()
      if (!part) break
      parts.push(part)
      length += part.length
    }
    this.#head = Buffer.concat(parts)
    return this.#head
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
    const { done, value } = await this.#unlessSlow(this.#parts.next())
    if (done) return undefined
    this.#received += value.length
    this.#window.waitedMs += performance.now() - startMs
    this.#window.bytes += value.length
    return value
  }

  /** Waits for the client. @throws {BerthError} `request_timeout` if the client is too slow */
  async #unlessSlow<T>(next: Promise<T>): Promise<T> {
    next.catch(() => undefined) // it can fail after the timeout
    for (;;) {
      const { waitedMs, bytes } = this.#window
      const result = await withTimeout(next, Math.max(0, this.speed.windowMs - waitedMs)).catch(() => {
        throw brokenOff()
      })
      if (result !== isLate) return result
      if (bytes < this.speed.bytes) throw tooSlow(this.speed)
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

function tooSlow({ windowMs, bytes }: MinimumSpeed): BerthError {
  return new BerthError(
    'invalid',
    'request_timeout',
    `the client was too slow: it must send at least ${bytes} bytes in ${windowMs / 1000} seconds`,
  )
}
