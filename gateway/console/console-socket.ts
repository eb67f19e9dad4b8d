import type { RawData, WebSocket } from 'ws'
import type { ConsoleOpened, ConsoleStart } from '../../proto/gen/berth/agent/v1/console.js'
import type { ConsoleRequest } from '../../shared/console-frames.js'
import { BerthError } from '../../shared/errors.js'
import { fromServiceError, UnansweredError } from '../../shared/grpc-errors.js'
import type { ConsoleOpener, ConsoleOutput, ConsoleStream } from '../fleet/agent-contract.js'
import { endingOfError, endingOfExit, endings, type ConsoleEnding } from './endings.js'
import type { ClientFrame } from './frames.js'
import { InputRate } from './input-rate.js'
import type { ConsoleVoice } from './voice.js'

/** Maximum number of bytes of input that the guest has not accepted yet. */
const inputWindowBytes = 256 * 1024
/** If more than `fullBytes` of output wait for the client, the stream is paused until less than `drainedBytes` wait. */
const fullBytes = 1024 * 1024
const drainedBytes = 256 * 1024
const openTimeoutMs = 30_000
/** Pauses in ms before further attempts to open a console whose connection broke before it was open. */
const reopenPausesMs = [500, 2000, 5000]
/** Interval of pings in ms. A client that does not answer a ping before the next ping is disconnected. */
const pingEveryMs = 25_000
const stalledInputMs = 60_000
/** Each frame of input counts as at least this number of bytes towards the client's rate limit. */
const frameCostBytes = 32
/** A resize of the terminal counts as this many bytes of input, because it causes work for guest programs. */
const resizeCostBytes = 1024

export interface ConsoleSocketParts {
  readonly socket: WebSocket
  readonly openStream: ConsoleOpener
  /** Waits for the next connection to the host. @throws {BerthError} `host_offline` */
  reconnect(): Promise<ConsoleOpener>
  readonly start: ConsoleStart
  readonly voice: ConsoleVoice
  readFrame(data: Buffer, isBinary: boolean): ClientFrame
  /** Called when the console is open in the guest. */
  onReady(): void
  /** Called exactly once, when the socket has ended. */
  onEnd(ending: ConsoleEnding): void
}

/** Connects the socket of a client with the stream of a console in its guest. */
export class ConsoleSocket {
  readonly openedAtMs = performance.now()
  /** Time of the client's last input, by performance.now(). Output of a program without a terminal counts as input. */
  lastInputMs = performance.now()
  /** Number of bytes of input, and of output, that this socket has transferred so far. */
  readonly passed = { in: 0, out: 0 }
  /** `exited`: a program without a terminal has ended, and its client can still be reading the output. */
  #state: 'opening' | 'open' | 'exited' | 'ended' = 'opening'
  /** First byte that was sent on this socket, as an offset in the console's output. */
  #base = 0
  /**
   * Progress of the output in bytes. `#sent`: passed to the socket. `#written`: written by the socket to its
   * connection. `#acknowledged`: confirmed by the client.
   */
  #sent = 0
  #written = 0
  #acknowledged = 0
  #reported = 0
  #inputSent = 0
  #inputTaken = 0
  #hasInputEnded = false
  #pausedAtMs: number | undefined
  #pingedAtMs = performance.now()
  #isAlive = true
  readonly #rate = new InputRate(performance.now())
  #stream: ConsoleStream
  readonly #timer: NodeJS.Timeout
  #reopenTimer: NodeJS.Timeout | undefined
  #reopened = 0
  /** Why the last attempt to open the console failed. */
  #problem: BerthError | undefined
  #resumeTimer: NodeJS.Timeout | undefined

  get #isProgram(): boolean {
    return this.parts.start.mode === 'run'
  }

  constructor(private readonly parts: ConsoleSocketParts) {
    const { socket, voice } = parts
    this.#timer = setTimeout(() => this.#giveUp(), openTimeoutMs)
    socket.on('message', (data, isBinary) => this.#receive(data, isBinary))
    socket.on('pong', () => (this.#isAlive = true))
    socket.on('error', () => undefined) // the event `close` follows and is handled
    socket.on('close', (code) => this.#left(code))
    socket.pause() // the socket stays paused until the console is open in the guest
    voice.connecting(socket)
    this.#stream = this.#open(parts.openStream)
  }

  get hasEnded(): boolean {
    return this.#state === 'ended'
  }

  /** Ends the socket. If `keep` is true, a console that can be resumed continues in the guest for a while. */
  end(ending: ConsoleEnding, keep = false): void {
    if (this.#state === 'ended') return
    this.#state = 'ended'
    clearTimeout(this.#timer)
    clearTimeout(this.#resumeTimer)
    clearTimeout(this.#reopenTimer)
    const { socket, voice } = this.parts
    if (!keep) this.#ask({ $case: 'close', value: {} })
    this.#stream.end()
    // Ends the stream even if the agent does not answer.
    setTimeout(() => this.#stream.cancel(), 1000).unref()
    voice.closing(socket, ending)
    if (socket.isPaused) socket.resume() // without this, the client's answer to the close frame would not be read
    socket.close(ending.code, ending.reason)
    setTimeout(() => socket.terminate(), 2000).unref()
    this.parts.onEnd(ending)
  }

  /** Pings the client from time to time, and disconnects a client that does not answer. */
  look(nowMs: number): void {
    if (this.#pausedAtMs !== undefined) {
      if (nowMs - this.#pausedAtMs > stalledInputMs) this.end(endings.silent)
      return
    }
    if (nowMs - this.#pingedAtMs < pingEveryMs) return
    if (!this.#isAlive) return this.end(endings.silent, true)
    this.#pingedAtMs = nowMs
    this.#isAlive = false
    this.parts.socket.ping()
  }

  warn(ending: ConsoleEnding, seconds: number): void {
    if (this.#state === 'open') this.parts.voice.warn(this.parts.socket, ending, seconds)
  }

  #open(openStream: ConsoleOpener): ConsoleStream {
    const stream = openStream({
      onMessage: (message) => this.#show(message),
      onEnd: (error) => this.#failed(error),
    })
    stream.send({ $case: 'start', value: this.parts.start })
    return stream
  }

  #ask(message: ConsoleRequest): void {
    this.#stream.send(message)
  }

  #show(message: ConsoleOutput): void {
    if (this.#state === 'ended') return
    if (message.$case === 'opened') return this.#opened(message.value)
    if (message.$case === 'data') return this.#send(message.value)
    if (message.$case === 'taken') return this.#took(message.value)
    if (message.value.reason === 'failed') return this.end(endings.failed)
    if (message.value.reason === 'ended' && this.#isProgram) return this.#exited(message.value.code)
    this.end(endingOfExit(message.value.reason))
  }

  #opened(opened: ConsoleOpened): void {
    if (this.#state !== 'opening') return this.end(endings.failed)
    clearTimeout(this.#timer)
    this.#state = 'open'
    this.#base = opened.offset
    this.parts.voice.ready(this.parts.socket, opened)
    this.parts.onReady()
    this.parts.socket.resume()
  }

  /** Reports the exit code. The client then closes the socket, but only after it has received all output. */
  #exited(exitCode: number): void {
    this.#state = 'exited'
    this.#stream.end()
    this.parts.voice.exited(this.parts.socket, exitCode)
    clearTimeout(this.#resumeTimer)
    this.#pausedAtMs = undefined
    this.parts.socket.resume() // reads the input that the program did not read, and then the close frame
  }

  #send(bytes: Buffer): void {
    const { socket } = this.parts
    const stream = this.#stream
    if (this.#isProgram) this.lastInputMs = performance.now()
    this.#sent += bytes.length
    this.passed.out += bytes.length
    socket.send(bytes, { binary: true }, () => {
      this.#written += bytes.length
      if (stream.isPaused && socket.bufferedAmount < drainedBytes) stream.resume()
      this.#report()
    })
    if (socket.bufferedAmount > fullBytes) stream.pause()
  }

  /** Reports to the agent how much output the client has received. Without reports, the agent stops sending. */
  #report(): void {
    if (this.#state !== 'open') return
    const received = this.parts.voice.acknowledges ? Math.min(this.#acknowledged, this.#written) : this.#written
    if (received - this.#reported < 16 * 1024) return
    this.#reported = received
    this.#ask({ $case: 'received', value: this.#base + received })
  }

  #receive(data: RawData, isBinary: boolean): void {
    if (this.#state !== 'open') return
    const frame = this.parts.readFrame(data as Buffer, isBinary)
    if (frame.type === 'bad') return this.end(endings.badFrame)
    if (frame.type === 'close') return this.end(endings.closed)
    this.#count(this.#costOf(frame))
    if (frame.type === 'ack') return this.#acknowledge(frame.bytes)
    if (frame.type === 'resize') this.#ask({ $case: 'resize', value: { columns: frame.columns, rows: frame.rows } })
    if (frame.type === 'input') this.#input(frame.bytes)
    if (frame.type === 'eof') this.#endInput()
  }

  /** Returns the cost of a frame in bytes. Program input costs little, because `inputWindowBytes` limits it, too. */
  #costOf(frame: ClientFrame): number {
    if (frame.type === 'resize') return resizeCostBytes
    return frame.type === 'input' && !this.#isProgram ? frame.bytes.length : frameCostBytes
  }

  #endInput(): void {
    if (!this.#isProgram || this.#hasInputEnded) return this.end(endings.badFrame)
    this.#hasInputEnded = true
    this.#ask({ $case: 'endInput', value: {} })
  }

  /** Counts input towards the rate limit. Each frame has a minimum cost, so that empty frames are limited, too. */
  #count(bytes: number): void {
    const waitMs = this.#rate.take(Math.max(bytes, frameCostBytes), performance.now())
    if (waitMs > 0) this.#pauseFor(waitMs)
  }

  #acknowledge(bytes: number): void {
    if (bytes > this.#sent) return this.end(endings.badFrame)
    this.#acknowledged = Math.max(this.#acknowledged, bytes)
    this.#report()
  }

  #input(value: Buffer): void {
    if (value.length === 0) return
    if (this.#hasInputEnded) return this.end(endings.badFrame)
    this.lastInputMs = performance.now()
    this.passed.in += value.length
    this.#inputSent += value.length
    this.#ask({ $case: 'data', value })
    if (this.#inputSent - this.#inputTaken <= inputWindowBytes) return
    if (this.#isProgram) return this.end(endings.badFrame)
    this.#pause()
  }

  #pauseFor(ms: number): void {
    this.#pause()
    this.#resumeTimer ??= setTimeout(() => {
      this.#resumeTimer = undefined
      this.#continue()
    }, ms)
  }

  #pause(): void {
    this.#pausedAtMs ??= performance.now()
    this.parts.socket.pause()
  }

  #took(bytes: number): void {
    this.#inputTaken = bytes
    if (this.#isProgram) this.parts.voice.taken(this.parts.socket, bytes)
    this.#continue()
  }

  #continue(): void {
    // The socket of a program is read even if the input window is full, because it also delivers acknowledgements.
    const isFull = !this.#isProgram && this.#inputSent - this.#inputTaken > inputWindowBytes / 2
    if (this.#pausedAtMs === undefined || this.#resumeTimer || isFull || this.#state !== 'open') return
    this.#pausedAtMs = undefined
    this.#isAlive = true
    this.parts.socket.resume()
  }

  /** Handles the end of the connection. Code 1000 ends the console. If another code ended it, the client may resume. */
  #left(code: number): void {
    this.end(this.#state === 'exited' ? endings.ended : endings.closed, code !== 1000)
  }

  /**
   * True if the console may be opened again, because its connection broke before it was open, for example during a
   * restart of the agent. A program is not started again, because it has possibly been started already.
   */
  #mayReopen(error: BerthError): boolean {
    const isRepeatable = this.#state === 'opening' && !this.#isProgram && error instanceof UnansweredError
    return isRepeatable && this.#reopened < reopenPausesMs.length
  }

  #failed(error: unknown): void {
    if (this.#state === 'ended' || this.#state === 'exited') return
    const known = fromServiceError(error, { step: 'open a console', left: this.#state === 'open' })
    if (!this.#mayReopen(known)) return this.#fail(known)
    this.#problem = known
    this.#reopenTimer = setTimeout(() => void this.#reopen(), reopenPausesMs[this.#reopened++])
  }

  async #reopen(): Promise<void> {
    try {
      const openStream = await this.parts.reconnect()
      if (this.#state === 'opening') this.#stream = this.#open(openStream)
    } catch (error) {
      this.#failed(error)
    }
  }

  #giveUp(): void {
    this.#fail(this.#problem ?? new BerthError('timeout', 'agent_timeout', 'the host did not open the console in time'))
  }

  #fail({ code, message }: BerthError): void {
    if (this.#state === 'opening') this.parts.voice.failed(this.parts.socket, message)
    this.end(endingOfError(code), true)
  }
}
