import { setTimeout as delay } from 'node:timers/promises'
import type { WebSocket } from 'ws'
import { isTemporary } from '../../client/index.js'
import { CliError, exitCodes } from '../errors.js'
import type { Session } from '../session.js'
import { closeError } from './close-error.js'
import { openConsoleSocket } from './open-socket.js'

export interface TerminalParts {
  /** UUID of the guest. */
  readonly guest: string
  readonly isSerial: boolean
  size(): { readonly cols: number; readonly rows: number }
  show(bytes: Buffer): void
  /** Called when the console has opened, but not after reconnections. */
  onOpen(): void
  /** Called if the connection has been lost for `reportMs`. */
  onLost(): void
}

/** Bytes of output between two acknowledgements. The server sends at most 512 KiB without an acknowledgement. */
const ackEveryBytes = 64 * 1024
const normalClosure = 1000
const frameTooLong = 1009
const lostConnection = 1006
/** Default time in ms for which the gateway keeps a terminal after its connection was lost. */
const keepMs = 120_000
/** Interruptions shorter than this time in ms are not reported, because a message would spoil a program's screen. */
const reportMs = 2000
const pausesMs = [200, 400, 800, 1200, 2000]
/** Time in ms without data after which a connection counts as lost. The gateway sends a ping every 25 s. */
const maxSilenceMs = 60_000

interface Ending {
  readonly code: number
  readonly reason: string
}

/** Messages of the gateway about a terminal. */
interface Message {
  readonly state?: string
  readonly resume?: string
  readonly offset?: number
}

/** A terminal of a guest. After a lost connection, a new connection continues the terminal's output. */
export class TerminalLink {
  #socket: WebSocket | undefined
  #resume = ''
  /** Offset of the current socket's first byte within the whole output of the console. */
  #base = 0
  #received = 0
  #acknowledged = 0
  #isOpen = false
  #lostSinceMs: number | undefined
  #isSpoilt = false
  #hasEnded = false

  constructor(
    private readonly session: Session,
    private readonly parts: TerminalParts,
  ) {}

  /** Resolves when the shell or the user has ended the console. @throws {CliError} if it ends for another reason */
  async run(): Promise<void> {
    for (let attempt = 0; !this.#hasEnded; attempt++) {
      const ending = await this.#attachSafely()
      if (this.#isOpen) attempt = 0
      this.#leaveSocket()
      const isOver = this.#hasEnded || !isLost(ending) || performance.now() - this.#lostSinceMs! > keepMs
      if (isOver) return endWith(ending, this.#hasEnded)
      await delay(pausesMs[Math.min(attempt, pausesMs.length - 1)])
    }
  }

  type(bytes: Buffer): void {
    if (this.#isOpen) this.#socket?.send(bytes)
  }

  resize(): void {
    this.#say({ type: 'resize', ...this.parts.size() })
  }

  end(): void {
    this.#hasEnded = true
    this.#socket?.close(normalClosure)
  }

  #say(message: object): void {
    if (this.#isOpen) this.#socket?.send(JSON.stringify(message))
  }

  /** Attaches to the console. If the console was open before, a temporary failure counts as a lost connection. */
  async #attachSafely(): Promise<Ending> {
    try {
      return await this.#attach()
    } catch (cause) {
      if (this.#resume !== '' && isTemporary(cause)) return { code: lostConnection, reason: '' }
      throw cause
    }
  }

  async #attach(): Promise<Ending> {
    const { guest, isSerial } = this.parts
    const { cols, rows } = this.parts.size()
    const query = {
      cols: String(cols),
      rows: String(rows),
      ...(isSerial && { mode: 'serial' }),
      ...(this.#resume !== '' && { resume: this.#resume, received: String(this.#base) }),
    }
    const socket = await openConsoleSocket(this.session, { kind: 'ssh', guest, protocol: 'berth.console.v1', query })
    this.#socket = socket
    if (this.#hasEnded) socket.close(normalClosure)
    socket.on('message', (data: Buffer, isBinary) => {
      if (isBinary) this.#show(data)
      else this.#hear(JSON.parse(data.toString()) as Message)
    })
    endAfterSilence(socket)
    return this.#endingOf(socket)
  }

  #endingOf(socket: WebSocket): Promise<Ending> {
    return new Promise((resolve, reject) => {
      socket.once('error', ({ message }) => {
        if (this.#resume !== '') return
        reject(new CliError(exitCodes.unreachable, `the console cannot be opened: ${message}`))
      })
      socket.once('close', (code, reason) => resolve({ code, reason: reason.toString() }))
    })
  }

  #hear({ state, resume = '', offset = 0 }: Message): void {
    if (state !== 'ready' && state !== 'resumed') return
    const isFirst = this.#resume === ''
    this.#isOpen = true
    this.#lostSinceMs = undefined
    this.#resume = resume
    this.#base = offset
    if (isFirst) this.parts.onOpen()
    if (this.#isSpoilt) this.#redraw()
  }

  /** Changes the size of the terminal, and then sets the real size again, so that programs draw their screen again. */
  #redraw(): void {
    this.#isSpoilt = false
    const { cols, rows } = this.parts.size()
    this.#say({ type: 'resize', cols, rows: Math.max(1, rows - 1) })
    this.#say({ type: 'resize', cols, rows })
  }

  #show(data: Buffer): void {
    this.parts.show(data)
    this.#received += data.length
    if (this.#received - this.#acknowledged < ackEveryBytes) return
    this.#acknowledged = this.#received
    this.#say({ type: 'ack', bytes: this.#received })
  }

  #leaveSocket(): void {
    this.#isOpen = false
    this.#base += this.#received
    this.#received = this.#acknowledged = 0
    this.#lostSinceMs ??= performance.now()
    if (this.#isSpoilt || this.#hasEnded || performance.now() - this.#lostSinceMs < reportMs) return
    this.#isSpoilt = true
    this.parts.onLost()
  }
}

/** True if only the connection was lost, so that the same console can be opened again. */
const isLost = ({ code }: Ending): boolean =>
  code !== normalClosure && code !== 1005 && code !== frameTooLong && code < 4400

function endWith({ code, reason }: Ending, isByUser: boolean): void {
  const error = isByUser ? undefined : closeError(code, reason)
  if (error) throw error
}

/** Closes a socket over which nothing has arrived for `maxSilenceMs`, because its network is probably gone. */
function endAfterSilence(socket: WebSocket): void {
  const timer = setTimeout(() => socket.terminate(), maxSilenceMs)
  for (const event of ['ping', 'message', 'open']) socket.on(event, () => void timer.refresh())
  socket.once('close', () => clearTimeout(timer))
}
