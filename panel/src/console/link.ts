import { asFailure } from '../api/failure.ts'
import { Connection, type Status } from './connection.ts'
import { endingOf, isGone, passes, type Ending } from './ending.ts'

export type Mode = 'shell' | 'serial' | 'vnc'

/** Size of a terminal in characters. */
export interface Size {
  readonly cols: number
  readonly rows: number
}

export type LinkState =
  | { readonly is: 'connecting' }
  | { readonly is: 'open' }
  /** The connection was lost or could not be opened. The panel tries again automatically. */
  | { readonly is: 'lost'; readonly ending: Ending }
  | { readonly is: 'ended'; readonly ending: Ending }

export interface LinkParts {
  /** Id, UUID or name of the guest. */
  readonly container: string
  readonly mode: Mode
  /** WebSocket address of the gateway, `ws://HOST`. */
  readonly server: string
  size(): Size
  /** Requests a ticket for the console. @throws {ApiFailure} */
  ticket(): Promise<string>
  /**
   * Shows output of the guest.
   * @param shown must be called after the output was processed
   * @param isReplay true for output that was shown before: the terminal must not answer queries in this output again
   */
  show(bytes: Uint8Array, shown: () => void, isReplay: boolean): void
  /** Clears the display, because the output that follows does not continue the displayed output. */
  restart(): void
  onState(state: LinkState): void
  /** Warns that the console ends in `seconds` unless there is input. 0 withdraws the warning. */
  onWarning(seconds: number): void
  /** Storage for the resume token; it survives a reload of the page. */
  readonly memory: { get(): string; set(resume: string): void }
}

/** Waiting times in ms before the retries after a lost connection. The last one applies to all further retries. */
const waitsMs = [200, 400, 800, 1200, 2000] as const
const longWaitMs = 2_000
const shortTries = 30
/** Maximum number of retries for a console that has never opened. */
const mostTries = 6

/** A console that can outlive its socket. After a lost connection, the next socket continues where the output ended. */
export class ConsoleLink {
  #connection: Connection | undefined
  #resume: string
  /** Offset of the current socket's first byte within the whole output of the console. */
  #base = 0
  #hasShown = false
  /** Number of bytes that the gateway will send again. Earlier connections have already shown these bytes. */
  #replay = 0
  #tries = 0
  #turn = 0
  #timer: ReturnType<typeof setTimeout> | undefined
  #isOpen = false

  constructor(private readonly parts: LinkParts) {
    this.#resume = parts.mode === 'vnc' ? '' : parts.memory.get()
    this.connect()
  }

  /** Opens the console, or opens it again after it has ended. */
  connect = (): void => {
    this.#tries = 0
    this.#try({ is: 'connecting' })
  }

  /** If the panel waits before its next attempt to connect, ends the wait and connects at once. */
  hurry = (): void => {
    if (this.#timer === undefined) return
    this.#tries = 0
    this.#try()
  }

  /** Handles the loss of the network. Drops the socket, because its state is no longer reliable, and connects again. */
  lose = (): void => {
    if (this.#connection === undefined) return
    this.#drop()
    this.#again({ code: 1006, reason: '' }, 5_000)
  }

  send(bytes: Uint8Array): void {
    if (!this.#isOpen) return
    this.parts.onWarning(0)
    this.#connection?.send(bytes)
  }

  resize({ cols, rows }: Size): void {
    if (this.#isOpen) this.#connection?.say({ type: 'resize', cols, rows })
  }

  /** Ends the program that runs in the console. */
  end(): void {
    this.#connection?.say({ type: 'close' })
  }

  /** Disconnects. The gateway keeps the console for a while, so that a client that returns can continue it. */
  leave(): void {
    this.#turn++
    this.#drop()
  }

  #try(state?: LinkState): void {
    this.#drop()
    if (state) this.parts.onState(state)
    const turn = ++this.#turn
    this.parts.ticket().then(
      (ticket) => (turn === this.#turn ? this.#open(ticket) : undefined),
      (thrown: unknown) => (turn === this.#turn ? this.#refused(thrown) : undefined),
    )
  }

  #open(ticket: string): void {
    const connection = new Connection({
      url: `${this.parts.server}/api/v1/${this.parts.mode === 'vnc' ? 'vnc' : 'ssh'}?${this.#query()}`,
      protocols: ['berth.console.v1', `berth-ticket.${ticket}`],
      onStatus: (status) => this.#hear(status),
      onBytes: (bytes, shown) => this.#show(bytes, shown),
      onClose: (ending) => this.#closed(ending),
    })
    this.#connection = connection
  }

  #query(): string {
    const { container, mode } = this.parts
    const { cols, rows } = this.parts.size()
    const query = new URLSearchParams({ container, mode, cols: String(cols), rows: String(rows) })
    if (this.#resume !== '') query.set('resume', this.#resume)
    if (this.#resume !== '' && this.#hasShown) query.set('received', String(this.#base))
    return query.toString()
  }

  #hear(status: Status): void {
    if (status.state === 'ready' || status.state === 'resumed') this.#opened(status)
    else if (status.state === 'closing' && (status.seconds ?? 0) > 0) this.parts.onWarning(status.seconds ?? 0)
  }

  #show(bytes: Uint8Array, shown: () => void): void {
    const old = bytes.subarray(0, this.#replay)
    const fresh = bytes.subarray(old.length)
    this.#replay -= old.length
    if (old.length > 0) this.parts.show(old, fresh.length > 0 ? () => undefined : shown, true)
    if (fresh.length > 0) this.parts.show(fresh, shown, false)
  }

  #opened({ state, resume = '', offset = 0, replay = 0 }: Status): void {
    this.#replay = replay
    if (this.#hasShown && (state === 'ready' || offset !== this.#base)) this.parts.restart()
    this.#base = offset
    this.#hasShown = this.#isOpen = true
    this.#tries = 0
    this.#remember(resume)
    this.parts.onState({ is: 'open' })
  }

  #closed(ending: Ending): void {
    this.#drop()
    if (isGone(ending)) this.#remember('')
    // A page that was reloaded tries to continue its console. If that console no longer exists, this opens a new one.
    if (ending.reason === 'console_gone' && !this.#hasShown) return this.#try()
    if (passes(ending)) this.#again(ending)
    else this.parts.onState({ is: 'ended', ending })
  }

  #refused(thrown: unknown): void {
    const { code, about } = asFailure(thrown)
    const ending = endingOf(code)
    if (passes(ending)) this.#again(ending, (about.retryAfterSeconds ?? 0) * 1000)
    else this.parts.onState({ is: 'ended', ending })
  }

  #again(ending: Ending, atLeastMs = 0): void {
    if (!this.#hasShown && this.#tries >= mostTries) return this.parts.onState({ is: 'ended', ending })
    const tries = this.#tries++
    const waitMs = tries > shortTries ? longWaitMs : (waitsMs[Math.min(tries, waitsMs.length - 1)] ?? 0)
    this.parts.onState({ is: 'lost', ending })
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => this.#try(), Math.max(waitMs, atLeastMs))
  }

  #remember(resume: string): void {
    this.#resume = resume
    if (this.parts.mode !== 'vnc') this.parts.memory.set(resume)
  }

  #drop(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
    this.#isOpen = false
    this.parts.onWarning(0)
    this.#base += this.#connection?.received ?? 0
    this.#connection?.drop()
    this.#connection = undefined
  }
}
