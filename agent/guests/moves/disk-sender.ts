import { setTimeout as delay } from 'node:timers/promises'
import type { Duplex } from 'node:stream'
import { BerthError, conflict } from '../../../shared/errors.js'
import type { GuestTransfers } from '../context.js'
import { FrameStream } from './frame-stream.js'
import { parseAnswer, type TransferAnswer, type TransferRequest } from './messages.js'
import type { HistoryPosition } from '../record/guest-history.js'
import type { Manifest } from './manifest.js'

export interface SenderOptions {
  readonly transfers: Pick<GuestTransfers, 'send'>
  readonly uuid: string
  /** Maximum rate in Mbit/s. 0: unlimited. */
  readonly bandwidthMbps: number
  /** Called after each part of the data with the number of bytes that this connection has sent. */
  readonly onSent: (bytes: number) => void
  /** Absent: without limit. A move needs none, because it can be canceled. */
  readonly patience?: SenderPatience
}

/** Maximum times in ms. A target that only sends keep-alives would otherwise block a transfer forever. */
export interface SenderPatience {
  /** Until the target has taken a part of the data. */
  readonly takeMs: number
  /** Until the target has answered a request. */
  readonly answerMs: number
}

/** Sends a guest's snapshots and its manifest on one connection. */
export class DiskSender {
  readonly #stream: FrameStream
  readonly #startMs = performance.now()
  #bytes = 0
  /** Position of the guest's history on the target. Undefined until `list`, and for older targets. */
  #position: HistoryPosition | undefined

  constructor(
    private readonly socket: Duplex,
    private readonly options: SenderOptions,
  ) {
    this.#stream = new FrameStream(socket)
  }

  /** Returns the snapshots that the target has. */
  async list(): Promise<Set<string>> {
    const { snapshots, history } = await this.#request({ kind: 'list' })
    this.#position = history
    return new Set(snapshots)
  }

  /**
   * Sends a snapshot, or its difference to `parent`.
   * @param firewall the guest's firewall, which a standby needs
   * @returns the length of the stream in bytes
   */
  async sendDisk(id: string, parent: string | undefined, firewall?: string): Promise<number> {
    const { transfers, uuid } = this.options
    const process = transfers.send(uuid, id, parent)
    try {
      const more = { ...(parent !== undefined && { parent }), ...(firewall !== undefined && { firewall }) }
      const request = { kind: 'disk', id, ...more } as const
      return await this.#sendAll(request, process.stream as AsyncIterable<Buffer>, process.ended)
    } finally {
      process.kill()
    }
  }

  /**
   * Sends the part of the guest's history that the target did not have at the last `list`.
   * @returns false if the target is too old to store it
   */
  async sendHistory(collect: (after: HistoryPosition) => string): Promise<boolean> {
    if (!this.#position) return false
    await this.#sendText({ kind: 'history' }, collect(this.#position))
    return true
  }

  /** Asks the target to check whether the guest still fits on that host. */
  async check(manifest: Manifest): Promise<void> {
    await this.#sendManifest({ kind: 'check' }, manifest)
  }

  /** Lets the target prepare the arrival of a running guest, and make the guest's disk from the snapshot `id`. */
  async prepare(id: string, facts: string): Promise<void> {
    await this.#sendText({ kind: 'prepare', id }, facts)
  }

  /**
   * Turns the snapshot into the guest's disk on the target. When this resolves, the target has the whole guest. With
   * `live`, it has everything except the guest's memory.
   */
  async finish(id: string, manifest: Manifest, live = false): Promise<void> {
    await this.#sendManifest({ kind: 'finish', id, ...(live && { live }) }, manifest)
  }

  /** Checks that the target has all memory of the running guest. */
  async confirm(): Promise<void> {
    await this.#request({ kind: 'confirm' })
  }

  async #sendManifest(request: TransferRequest, manifest: Manifest): Promise<void> {
    await this.#sendText(request, JSON.stringify(manifest))
  }

  async #sendText(request: TransferRequest, text: string): Promise<void> {
    await this.#sendAll(request, [Buffer.from(text)], Promise.resolve())
  }

  close(): void {
    this.socket.end()
    this.socket.destroy()
  }

  async #request(request: TransferRequest): Promise<TransferAnswer> {
    await this.#taken(this.#stream.send(request))
    return parseAnswer(await this.#answered(this.#stream.nextMessage()))
  }

  /** Sends a request with its data. If the target answers before it has received all data, the answer is an error. */
  async #sendAll(
    request: TransferRequest,
    data: AsyncIterable<Buffer> | Iterable<Buffer>,
    complete: Promise<void>,
  ): Promise<number> {
    await this.#taken(this.#stream.send(request))
    const answer = this.#stream.nextMessage().then(parseAnswer)
    const early = answer.then(refuseEarly)
    early.catch(() => undefined) // `early` is awaited below
    let bytes = 0
    for await (const chunk of data) {
      bytes += chunk.length
      await Promise.race([this.#sendPart(chunk), early])
    }
    await Promise.race([complete, early])
    await this.#taken(this.#stream.send({ kind: 'end', bytes }))
    await this.#answered(answer)
    return bytes
  }

  #taken<T>(sent: Promise<T>): Promise<T> {
    return within(sent, this.options.patience?.takeMs, 'the target host takes no data')
  }

  #answered<T>(answer: Promise<T>): Promise<T> {
    return within(answer, this.options.patience?.answerMs, 'the target host does not answer')
  }

  async #sendPart(data: Buffer): Promise<void> {
    const { bandwidthMbps, onSent } = this.options
    await this.#taken(this.#stream.sendData(data))
    this.#bytes += data.length
    onSent(this.#bytes)
    if (bandwidthMbps === 0) return
    const dueMs = this.#startMs + (this.#bytes * 8) / (bandwidthMbps * 1000)
    const waitMs = dueMs - performance.now()
    if (waitMs > 5) await delay(waitMs)
  }
}

function refuseEarly(): never {
  throw conflict('bad_stream', 'the target host answered before it had received all data')
}

/** @throws {BerthError} `target_unreachable` if `work` takes longer than `timeMs` */
async function within<T>(work: Promise<T>, timeMs: number | undefined, message: string): Promise<T> {
  if (timeMs === undefined) return work
  const end = new AbortController()
  const late = delay(timeMs, undefined, { signal: end.signal, ref: false }).then((): never => {
    throw new BerthError('unavailable', 'target_unreachable', message)
  })
  try {
    return await Promise.race([work, late])
  } finally {
    end.abort()
  }
}
