import type { Duplex } from 'node:stream'
import type { Logger } from 'pino'
import { conflict, toBerthError } from '../../../shared/errors.js'
import type { ReceiveProcess } from '../../host/disk/btrfs-stream.js'
import type { PoolCapacity } from '../../storage/pool.js'
import { refuseFull } from '../../storage/room.js'
import type { BackupContext } from '../context.js'
import type { TransferIdentity } from './arrival-details.js'
import { arrivalJournal, type DiskJournal } from './disk-journal.js'
import { FrameStream, writeTo } from './frame-stream.js'
import type { HistoryTransfer } from '../record/guest-history.js'
import type { LiveArrivals } from './live-target.js'
import { parseRequest, type DiskRequest, type TransferAnswer, type TransferRequest } from './messages.js'
import type { ReceivedGuests } from './received-guests.js'

const mib = 1024 ** 2
/** Time in ms that the connection stays open after an error, so that the source can receive the error. */
const lingerMs = 5000
const maxManifestBytes = 16 * mib
const maxFactsBytes = mib
const maxHistoryBytes = 8 * mib
/** Received bytes after which the state of the move and the free space of the pool are checked again. */
const checkEveryBytes = 32 * mib
/** Interval in ms of checks whether this host still expects the guest. */
const checkEveryMs = 10_000

/** Requests that a standby may send. */
const standbyKinds: ReadonlySet<TransferRequest['kind']> = new Set(['list', 'disk', 'history'])

export interface ReceiverParts {
  readonly context: Pick<BackupContext, 'transfers' | 'store' | 'history'>
  readonly received: Pick<ReceivedGuests, 'check' | 'checkNewest' | 'prepare' | 'finish'>
  readonly live: Pick<LiveArrivals, 'confirm' | 'openMemory'>
  readonly readPool: () => Promise<PoolCapacity>
  readonly log: Logger
}

export interface ReceiverOptions {
  /** Interval in ms of checks whether this host still expects the transfer. */
  readonly checkMs?: number | undefined
  /** Default: the journal of an arriving guest. */
  readonly disks?: DiskJournal
}

/** Receives one guest, or an increment of a standby. The caller has checked the ticket of the connection. */
export class TransferReceiver {
  readonly #stream: FrameStream
  readonly #checkMs: number
  readonly #disks: DiskJournal

  constructor(
    private readonly parts: ReceiverParts,
    private readonly transfer: TransferIdentity,
    private readonly socket: Duplex,
    { checkMs = checkEveryMs, disks = arrivalJournal(parts, transfer) }: ReceiverOptions = {},
  ) {
    this.#checkMs = checkMs
    this.#disks = disks
    this.#stream = new FrameStream(socket)
  }

  /** Answers requests until the connection or the move ends. Never rejects. */
  async run(): Promise<void> {
    const timer = setInterval(() => this.#endUnexpected(), this.#checkMs).unref()
    try {
      for (;;) {
        const request = parseRequest(await this.#stream.nextMessage())
        this.#check()
        await this.#stream.send(await this.#answer(request))
      }
    } catch (error) {
      await this.#fail(error)
    } finally {
      clearInterval(timer)
      await this.#tidy()
    }
  }

  async #tidy(): Promise<void> {
    try {
      await this.#disks.ended()
    } catch (err) {
      this.parts.log.warn({ err, guest: this.transfer.uuid }, 'could not delete received data of a transfer that ended')
    }
  }

  #check(): void {
    this.#disks.check()
  }

  /** Ends the connection if the move has ended, because a hostile source could keep it open. */
  #endUnexpected(): void {
    try {
      this.#check()
    } catch {
      this.socket.destroy()
    }
  }

  async #fail(error: unknown): Promise<void> {
    const { code, message, kind } = toBerthError(error, 'could not receive the container')
    if (code === 'connection_lost') return void this.socket.destroy()
    this.parts.log.warn({ err: error, guest: this.transfer.uuid }, 'could not receive a container from another host')
    const shown =
      kind === 'internal' ? 'the target host could not receive the container: see the log of its agent' : message
    await this.#stream.send({ error: { code, message: shown } } satisfies TransferAnswer).catch(() => undefined)
    this.socket.end()
    this.socket.resume() // reads and drops further data: without this, the source would not receive the error
    setTimeout(() => this.socket.destroy(), lingerMs).unref()
  }

  async #answer(request: TransferRequest): Promise<TransferAnswer> {
    const { received, live, context } = this.parts
    if (this.#disks.isForStandby && !standbyKinds.has(request.kind))
      throw conflict('bad_stream', 'the other host may only send snapshots and the history for a standby')
    switch (request.kind) {
      case 'list':
        return { snapshots: await this.#disks.listComplete(), history: context.history.position(this.#history) }
      case 'disk':
        await this.#receive(request)
        return {}
      case 'history':
        this.#storeHistory(await this.#readText(maxHistoryBytes))
        return {}
      case 'check':
        await received.checkNewest(this.transfer, await this.#readText(maxManifestBytes))
        return {}
      case 'prepare':
        await received.prepare(this.transfer, this.#completeId(request.id), await this.#readText(maxFactsBytes))
        return {}
      case 'finish':
        await this.#finish(request)
        return {}
      case 'confirm':
        await live.confirm(this.transfer.uuid)
        return {}
      case 'end':
        throw conflict('bad_stream', 'the other host ended a data transfer that it had not started')
    }
  }

  get #history(): HistoryTransfer {
    return { transferId: this.transfer.moveId, uuid: this.transfer.uuid }
  }

  #storeHistory(raw: string): void {
    const { history, store } = this.parts.context
    store.changes.transaction(() => {
      this.#check()
      history.receive(this.#history, raw)
    })
  }

  #completeId(id: string): string {
    if (this.#disks.has(id)) return id
    throw conflict('bad_stream', 'the other host did not send the last snapshot completely')
  }

  async #receive({ id, firewall }: DiskRequest): Promise<void> {
    const { transfers } = this.parts.context
    const { uuid } = this.transfer
    this.#disks.forget(id)
    const maxBytes = this.#disks.maxBytes()
    const process = await transfers.receive(uuid, id)
    const bytes = await this.#readInto(process, maxBytes)
    this.#check()
    await transfers.confirm(uuid, id)
    await this.#disks.checkSpace(id)
    // If this connection is closed, a newer connection of this move can be receiving a snapshot. The code below would
    // delete that snapshot.
    if (this.socket.destroyed) throw conflict('connection_lost', 'the other host has ended the connection')
    this.#disks.note({ id, bytes, firewall })
    await this.#disks.listComplete() // deletes all received snapshots that are not complete, or no longer needed
  }

  /** Passes received data to `process`, and waits until `process` has ended. @returns the number of bytes */
  async #readInto(process: ReceiveProcess, maxBytes: number): Promise<number> {
    const { stream, ended } = process
    const take = (data: Buffer): Promise<void> =>
      writeTo(stream, data).catch(async (error: unknown) => {
        await ended // throws the program's error
        throw error
      })
    try {
      const bytes = await this.#readData(maxBytes, take)
      stream.end()
      await ended
      return bytes
    } finally {
      process.kill()
    }
  }

  async #finish({ id, live = false }: { readonly id: string; readonly live?: boolean }): Promise<void> {
    const snapshot = this.#completeId(id)
    await this.parts.received.finish(this.transfer, { snapshot, live }, await this.#readText(maxManifestBytes))
  }

  async #readText(maxBytes: number): Promise<string> {
    const parts: Buffer[] = []
    await this.#readData(maxBytes, async (data) => void parts.push(Buffer.from(data)))
    return Buffer.concat(parts).toString()
  }

  /** Reads a request's data. @throws {BerthError} `bad_stream` if it is too long or incomplete; `storage_full` */
  async #readData(maxBytes: number, take: (data: Buffer) => Promise<void>): Promise<number> {
    for (let bytes = 0, nextCheck = 0; ;) {
      if (bytes >= nextCheck) {
        this.#check()
        refuseFull(await this.parts.readPool())
        nextCheck = bytes + checkEveryBytes
      }
      const { content, isData } = await this.#stream.next()
      if (!isData) return checkComplete(parseRequest(JSON.parse(content.toString())), bytes)
      bytes += content.length
      if (bytes > maxBytes)
        throw conflict('bad_stream', 'the other host sent more data than the disk limit of the guest allows')
      await take(content)
    }
  }
}

function checkComplete(end: TransferRequest, bytes: number): number {
  if (end.kind === 'end' && end.bytes === bytes) return bytes
  throw conflict('bad_stream', 'the other host sent incomplete data')
}
