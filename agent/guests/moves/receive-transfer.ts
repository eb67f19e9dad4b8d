import type { Duplex } from 'node:stream'
import type { Logger } from 'pino'
import { conflict, toBerthError } from '../../../shared/errors.js'
import type { BackupContext } from '../context.js'
import type { Arrivals, TransferIdentity } from './arrivals.js'
import { FrameStream, writeTo } from './frame-stream.js'
import { parseRequest, type TransferAnswer, type TransferRequest } from './messages.js'

const gib = 1024 ** 3
/** Time in ms within which the source can receive an error. */
const lingerMs = 5000
const maxManifestBytes = 16 * 1024 * 1024
/** A stream may be longer than the guest's disk, since it describes each file. */
const streamOverhead = { factor: 1.25, bytes: gib }

export interface ReceiverParts {
  readonly context: Pick<BackupContext, 'transfers' | 'store'>
  readonly arrivals: Arrivals
  readonly log: Logger
}

/** Receives one guest from another host. The caller has checked the ticket of the connection. */
export class TransferReceiver {
  readonly #stream: FrameStream

  constructor(
    private readonly parts: ReceiverParts,
    private readonly transfer: TransferIdentity,
    private readonly socket: Duplex,
  ) {
    this.#stream = new FrameStream(socket)
  }

  /** Answers requests until the connection ends. Never rejects. */
  async run(): Promise<void> {
    try {
      for (;;) {
        const request = parseRequest(await this.#stream.nextMessage())
        this.parts.arrivals.check(this.transfer)
        await this.#stream.send(await this.#answer(request))
      }
    } catch (error) {
      await this.#fail(error)
    }
  }

  async #fail(error: unknown): Promise<void> {
    const { code, message, kind } = toBerthError(error, 'receive a container')
    if (code === 'connection_lost') return void this.socket.destroy()
    this.parts.log.warn({ err: error, guest: this.transfer.uuid }, 'receiving a container from another host failed')
    const shown = kind === 'internal' ? 'receiving failed: see the log of its agent' : message
    await this.#stream.send({ error: { code, message: shown } } satisfies TransferAnswer).catch(() => undefined)
    this.socket.end()
    this.socket.resume() // the source notices the error only if its data is read
    setTimeout(() => this.socket.destroy(), lingerMs).unref()
  }

  async #answer(request: TransferRequest): Promise<TransferAnswer> {
    const { transfers } = this.parts.context
    const { uuid } = this.transfer
    switch (request.kind) {
      case 'list':
        return { snapshots: await transfers.listComplete(uuid) }
      case 'disk':
        await this.#receive(request.id)
        return {}
      case 'finish':
        await this.parts.arrivals.finish(this.transfer, request.id, await this.#readManifest())
        return {}
      case 'end':
        throw conflict('bad_stream', 'the other host sent the end of data that it did not announce')
    }
  }

  async #receive(id: string): Promise<void> {
    const { transfers, store } = this.parts.context
    const { uuid } = this.transfer
    const { diskGb } = store.get(uuid).spec.limits
    const process = await transfers.receive(uuid, id)
    try {
      const { stream } = process
      await this.#readData(diskGb * gib * streamOverhead.factor + streamOverhead.bytes, (data) =>
        writeTo(stream, data).catch(async (error: unknown) => {
          await process.ended // throws the program's error
          throw error
        }),
      )
      stream.end()
      await process.ended
    } finally {
      process.kill()
    }
    await transfers.confirm(uuid, id)
    await transfers.listComplete(uuid) // removes anything else that the stream created
  }

  async #readManifest(): Promise<string> {
    const parts: Buffer[] = []
    await this.#readData(maxManifestBytes, async (data) => void parts.push(Buffer.from(data)))
    return Buffer.concat(parts).toString()
  }

  /** Reads data up to its end. @throws {BerthError} `bad_stream` if it is too long or incomplete */
  async #readData(maxBytes: number, take: (data: Buffer) => Promise<void>): Promise<void> {
    for (let bytes = 0; ;) {
      const { content, isData } = await this.#stream.next()
      if (!isData) return refuseIncomplete(parseRequest(JSON.parse(content.toString())), bytes)
      bytes += content.length
      if (bytes > maxBytes) throw conflict('bad_stream', 'the other host sent more data than the disk can contain')
      await take(content)
    }
  }
}

function refuseIncomplete(end: TransferRequest, bytes: number): void {
  if (end.kind !== 'end' || end.bytes !== bytes) throw conflict('bad_stream', 'the other host sent incomplete data')
}
