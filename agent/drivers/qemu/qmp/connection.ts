import { randomInt } from 'node:crypto'
import { connect, type Socket } from 'node:net'
import { BerthError, conflict, toBerthError } from '../../../../shared/errors.js'
import { EventBudget } from './event-budget.js'
import { Lines, MalformedMessage, parseQmpMessage, type QmpMessage } from './messages.js'

export type MachineEvent = Extract<QmpMessage, { kind: 'event' }>

export interface ConnectionOptions {
  readonly path: string
  /** Timeout in ms of the connection, of QEMU's greeting and of commands without a timeout of their own. */
  readonly timeoutMs: number
  /** True for QEMU, which sends a greeting; false for the guest agent, which does not. */
  readonly greets: boolean
  readonly onEvent?: (event: MachineEvent) => void
  /** Called only once, when the other side has hung up or violated the protocol. */
  readonly onClose?: () => void
}

/** Time in ms for which the socket is not read after too many events. */
const restMs = 1000

interface Pending {
  readonly resolve: (value: unknown) => void
  readonly reject: (error: Error) => void
  readonly timer: NodeJS.Timeout
}

/**
 * Exchanges lines of JSON on a Unix socket with QEMU's monitor or a guest agent. A command that is not answered in time
 * fails; a late answer is discarded. The connection closes if the other side sends an invalid message or a line that is
 * too long.
 */
export class QmpConnection {
  readonly #socket: Socket
  readonly #lines = new Lines()
  readonly #pending = new Map<number, Pending>()
  readonly #options: ConnectionOptions
  readonly #events = new EventBudget()
  /** Starts at a random number, so that a late answer to another connection's command is not accepted. */
  #nextId = randomInt(1, 2 ** 40)
  #greeted: (() => void) | undefined
  #closed = false

  private constructor(socket: Socket, options: ConnectionOptions) {
    this.#socket = socket
    this.#options = options
    socket.on('data', (chunk: Buffer) => this.#receive(chunk))
    socket.on('error', () => undefined) // the event 'close', which follows, handles the end
    socket.once('close', () => this.#end(gone()))
  }

  /** Opens a connection. @throws {BerthError} `machine_unreachable`, `machine_timeout` */
  static async open(options: ConnectionOptions): Promise<QmpConnection> {
    const socket = connect(options.path)
    const connection = new QmpConnection(socket, options)
    try {
      await connection.#begin()
      return connection
    } catch (error) {
      connection.close()
      throw error
    }
  }

  get closed(): boolean {
    return this.#closed
  }

  /**
   * Executes a command and returns its result.
   * @throws {BerthError} `machine_refused` with QEMU's reason, `machine_timeout`, `machine_unreachable`
   */
  execute(command: string, args?: Readonly<Record<string, unknown>>, timeoutMs?: number): Promise<unknown> {
    const id = this.#nextId++
    const message = { execute: command, id, ...(args ? { arguments: args } : {}) }
    return this.#expect(id, command, timeoutMs ?? this.#options.timeoutMs, () =>
      this.#socket.write(`${JSON.stringify(message)}\n`),
    )
  }

  /** Sends bytes that the guest agent's parser needs before the next command. */
  write(bytes: Buffer): void {
    this.#socket.write(bytes)
  }

  close(): void {
    this.#socket.destroy()
    this.#end(gone())
  }

  /** Lets this process end although the connection is open. */
  unref(): void {
    this.#socket.unref()
  }

  async #begin(): Promise<void> {
    if (!this.#options.greets) return
    const greeting = this.#expect(0, 'greeting', this.#options.timeoutMs, () => {
      this.#greeted = () => this.#answer(0, undefined)
    })
    // QEMU sends its greeting before it reads a command, so the command need not wait for the greeting.
    await Promise.all([greeting, this.execute('qmp_capabilities')])
  }

  #expect(id: number, command: string, timeoutMs: number, ask: () => void): Promise<unknown> {
    return new Promise((resolve, reject) => {
      if (this.#closed) return reject(gone())
      const late = (): void => {
        this.#pending.delete(id)
        reject(
          new BerthError(
            'timeout',
            'machine_timeout',
            `the virtual machine did not answer the command ${command} within ${timeoutMs} ms`,
          ),
        )
      }
      this.#pending.set(id, { resolve, reject, timer: setTimeout(late, timeoutMs) })
      ask()
    })
  }

  #receive(chunk: Buffer): void {
    try {
      for (const line of this.#lines.take(chunk)) if (line.trim() !== '') this.#read(line)
    } catch (error) {
      this.#socket.destroy()
      this.#end(toBerthError(error, 'could not read a QMP message of the virtual machine'))
    }
  }

  /** Parses a line. Skips a guest agent's invalid lines, which can be parts of an answer to an earlier client. */
  #read(line: string): void {
    try {
      this.#take(parseQmpMessage(clean(line)))
    } catch (error) {
      if (this.#options.greets || !(error instanceof MalformedMessage)) throw error
      this.#countUnasked()
    }
  }

  #take(message: QmpMessage): void {
    switch (message.kind) {
      case 'greeting':
        return this.#greeted ? this.#greeted() : this.#countUnasked()
      case 'event':
        this.#countUnasked()
        return this.#options.onEvent?.(message)
      case 'answer':
        return this.#answer(message.id, message.value)
      case 'refusal':
        return this.#answered(message.id)?.reject(conflict('machine_refused', message.reason || message.class))
    }
  }

  /**
   * Stops reading for a while after too many unrequested messages. The messages wait in QEMU's memory, which is limited
   * like the guest's memory.
   */
  #countUnasked(): void {
    if (this.#events.take() || this.#socket.isPaused()) return
    this.#socket.pause()
    setTimeout(() => this.#socket.resume(), restMs).unref()
  }

  #answer(id: number, value: unknown): void {
    this.#answered(id)?.resolve(value)
  }

  /** Returns the command that waits for this answer. If no command waits for it, counts the answer as unrequested. */
  #answered(id: number): Pending | undefined {
    const pending = this.#settle(id)
    if (!pending) this.#countUnasked()
    return pending
  }

  #settle(id: number): Pending | undefined {
    const pending = this.#pending.get(id)
    this.#pending.delete(id)
    clearTimeout(pending?.timer)
    return pending
  }

  #end(error: Error): void {
    if (this.#closed) return
    this.#closed = true
    for (const id of [...this.#pending.keys()]) this.#settle(id)?.reject(error)
    this.#options.onClose?.()
  }
}

/** Removes the rest of an earlier answer. A guest agent's new answer begins with a byte that is invalid in JSON. */
function clean(line: string): string {
  return line.replace(/^.*\ufffd/su, '')
}

function gone(): BerthError {
  return new BerthError('unavailable', 'machine_unreachable', 'the virtual machine does not answer')
}
