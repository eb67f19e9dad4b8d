import type { Holding } from '../../shared/fair-room.js'
import type { Terminal, TerminalListener } from '../host/process/pty.js'
import type { ConsoleRequest } from '../../shared/console-frames.js'
import type { ConsoleUser, OpenConsole, Size } from './contract.js'
import { OutputRing } from './output-ring.js'

/** Maximum bytes of unacknowledged output. This output is retained, so that a client that resumes loses nothing. */
const windowBytes = 512 * 1024
/** Bytes of output that are replayed to a client that reconnects with an empty screen. */
const replayBytes = 256 * 1024
/**
 * Maximum bytes of output that still arrive from a paused terminal: one read, and the head of a record
 * (shared/program-output.ts). Unacknowledged output can exceed `windowBytes` by this much.
 */
const chunkBytes = 65 * 1024
const messageBytes = 32 * 1024
/**
 * Time in ms for which output is collected before it is sent. Output of at most `littleBytes`, such as typed
 * characters, is sent immediately.
 */
const gatherMs = 2
const littleBytes = 64
/** Maximum bytes of input that wait for a terminal. Further input is dropped, like input to a full tty. */
const mostOwedBytes = 512 * 1024
/** Bytes of input after which the user gets an acknowledgement. */
const noteTakenBytes = 16 * 1024
/** Time in ms for which the terminal gets a different size, so that programs redraw a client's empty screen. */
const redrawMs = 60

export interface HeldConsoleOptions extends Holding {
  readonly id: string
  readonly guestUuid: string
  readonly principal: string
  readonly keepMs: number
  readonly size: Size
  open(listener: TerminalListener): Terminal
  /** Called once, when the console has ended. */
  onGone(): void
}

/**
 * One console with its terminal. If `windowBytes` of output are unacknowledged, the console sends nothing and pauses
 * its terminal. When the user has left, the console stays open for some time, so that the user can return.
 */
export class HeldConsole {
  readonly #terminal: Terminal
  readonly #output = new OutputRing(windowBytes + chunkBytes)
  #user: ConsoleUser | undefined
  /** `#sent`: offset up to which output was sent to the user. `#received`: offset that the user acknowledged. */
  #sent = 0
  #received = 0
  /** Bytes of output that were overwritten before they were sent. Offsets for users do not count these bytes. */
  #lost = 0
  #paused = false
  /** `#owed`: bytes of input that wait for the terminal. `#owedBefore`: the part that earlier users have typed. */
  #owed = 0
  #owedBefore = 0
  /** `#taken`: bytes of the user's input that the terminal accepted. `#noted`: how many of these were acknowledged. */
  #taken = 0
  #noted = 0
  #lastSentMs = 0
  #exitCode: number | undefined
  #gone = false
  #gathering: NodeJS.Timeout | undefined
  #redraw: NodeJS.Timeout | undefined
  #leaving: NodeJS.Timeout | undefined

  /** @throws {Error} if the terminal cannot be opened */
  constructor(private readonly options: HeldConsoleOptions) {
    this.#terminal = options.open({
      onData: (chunk) => this.#show(chunk),
      onExit: (code) => this.#exited(code),
      onTaken: (bytes) => this.#took(bytes),
    })
  }

  get id(): string {
    return this.options.id
  }

  get guestUuid(): string {
    return this.options.guestUuid
  }

  get principal(): string {
    return this.options.principal
  }

  get share(): string {
    return this.options.share
  }

  get unlimited(): boolean {
    return this.options.unlimited
  }

  get isUsed(): boolean {
    return this.#user !== undefined
  }

  /** True if the console can be resumed and belongs to this guest and this user. */
  belongsTo({ guestUuid, principal }: { guestUuid: string; principal: string }): boolean {
    return !this.#gone && guestUuid === this.options.guestUuid && principal === this.options.principal
  }

  /**
   * Makes a user the present user of the console, and dismisses the previous user.
   * @param joining.received offset up to which the user already has the output; null if the user has no output yet
   */
  join(user: ConsoleUser, joining?: { readonly received: number | null; readonly size: Size }): OpenConsole {
    this.#dismiss('taken_over')
    clearTimeout(this.#leaving)
    this.#user = user
    this.#taken = this.#noted = 0
    this.#owedBefore = this.#owed
    const sentBefore = this.#sent
    this.#sent = this.#received = this.#startFor(joining?.received ?? null)
    const { id: resume, keepMs } = this.options
    user.send({
      $case: 'opened',
      value: {
        resume: keepMs > 0 ? resume : '',
        resumed: joining !== undefined,
        offset: this.#sent - this.#lost,
        replay: joining?.received === null ? Math.max(0, sentBefore - this.#sent) : 0,
      },
    })
    if (joining) this.#drawAgain(joining.size)
    this.#relieve()
    this.#send()
    return {
      receive: (request) => {
        if (this.#user === user) this.#receive(request)
      },
      leave: () => {
        if (this.#user === user) this.#leave()
      },
    }
  }

  close(): void {
    if (this.#gone) return
    this.#gone = true
    for (const timer of [this.#gathering, this.#redraw, this.#leaving]) clearTimeout(timer)
    this.#terminal.close()
    this.#user?.end()
    this.#user = undefined
    this.options.onGone()
  }

  /** Returns the offset from which a user gets output. For an empty screen (null), this is the start of a line. */
  #startFor(received: number | null): number {
    const { start, end } = this.#output
    const offset = received === null ? Infinity : received + this.#lost
    if (offset <= end) return Math.max(start, offset)
    const from = Math.max(start, end - replayBytes)
    return from === 0 ? 0 : this.#output.findLine(from, 4096)
  }

  #receive(request: ConsoleRequest): void {
    if (request.$case === 'data') this.#type(request.value)
    if (request.$case === 'resize') this.#resize(request.value)
    if (request.$case === 'received') this.#acknowledge(request.value)
    if (request.$case === 'endInput') this.#terminal.endInput?.()
    if (request.$case === 'close') this.close()
  }

  /**
   * Writes input, or drops it if too much input waits. Waiting input of earlier users also counts, because a user can
   * reconnect often.
   */
  #type(value: Buffer): void {
    if (this.#owed + value.length > mostOwedBytes) return this.#note(value.length)
    this.#owed += value.length
    this.#terminal.write(value)
  }

  #resize(size: Size): void {
    clearTimeout(this.#redraw)
    if (this.#exitCode === undefined) this.#terminal.resize(size.columns, size.rows)
  }

  /** Makes programs redraw, by a temporary change of the terminal's size. */
  #drawAgain(size: Size): void {
    this.#resize({ ...size, rows: size.rows > 1 ? size.rows - 1 : 2 })
    this.#redraw = setTimeout(() => this.#resize(size), redrawMs)
  }

  #acknowledge(offset: number): void {
    this.#received = Math.max(this.#received, Math.min(offset + this.#lost, this.#sent))
    this.#relieve()
    this.#send()
  }

  #show(chunk: Buffer): void {
    this.#output.push(chunk)
    if (this.#output.end - this.#received >= windowBytes && !this.#paused) {
      this.#paused = true
      this.#terminal.pause()
    }
    this.#sendSoon()
  }

  #relieve(): void {
    if (!this.#paused || this.#output.end - this.#received > windowBytes / 2) return
    this.#paused = false
    this.#terminal.resume()
  }

  /**
   * Sends output at once if it is little, such as typed characters, or if nothing was sent just before. Otherwise
   * collects output for a moment and sends all of it together.
   */
  #sendSoon(): void {
    if (this.#gathering) return
    const isLittle = this.#output.end - this.#sent <= littleBytes
    if (isLittle || performance.now() - this.#lastSentMs >= gatherMs) return this.#send()
    this.#gathering = setTimeout(() => this.#send(), gatherMs)
  }

  #send(): void {
    clearTimeout(this.#gathering)
    this.#gathering = undefined
    while (this.#user && this.#sent < this.#output.end && this.#sent - this.#received < windowBytes) {
      this.#skipLost()
      const value = this.#output.read(this.#sent, messageBytes)
      this.#sent += value.length
      this.#user.send({ $case: 'data', value })
      this.#lastSentMs = performance.now()
    }
    if (this.#user && this.#exitCode !== undefined && this.#sent === this.#output.end)
      this.#dismiss('ended', this.#exitCode)
  }

  /** Skips output that was overwritten before it was sent. This happens if the terminal cannot be paused. */
  #skipLost(): void {
    const lost = this.#output.start - this.#sent
    if (lost <= 0) return
    this.#lost += lost
    this.#sent += lost
    this.#received += lost // the user need not acknowledge lost output
  }

  #took(bytes: number): void {
    this.#owed -= bytes
    const typedBefore = Math.min(this.#owedBefore, bytes)
    this.#owedBefore -= typedBefore
    this.#note(bytes - typedBefore)
  }

  #note(bytes: number): void {
    this.#taken += bytes
    if (!this.#user || this.#taken - this.#noted < noteTakenBytes) return
    this.#noted = this.#taken
    this.#user.send({ $case: 'taken', value: this.#taken })
  }

  #exited(code: number): void {
    this.#exitCode = code
    this.#send()
  }

  /** Notifies the present user that the console has ended or was taken over. */
  #dismiss(reason: 'ended' | 'taken_over', code = -1): void {
    const user = this.#user
    this.#user = undefined
    user?.send({ $case: 'exit', value: { code, reason, detail: '' } })
    user?.end()
    if (user && reason === 'ended') this.close()
  }

  #leave(): void {
    this.#user = undefined
    if (this.options.keepMs === 0) return this.close()
    this.#leaving = setTimeout(() => this.close(), this.options.keepMs).unref()
  }
}
