import type { WebSocket } from 'ws'
import { ProgramOutputReader } from '../../shared/program-output.js'
import { CliError, exitCodes } from '../errors.js'
import type { Session } from '../session.js'
import { closeError } from './close-error.js'
import { openConsoleSocket } from './open-socket.js'

/** Maximum bytes of sent input that the program still has to read. The gateway closes the socket if there are more. */
const inputWindowBytes = 256 * 1024
const inputFrameBytes = 32 * 1024
/** Bytes of output between two acknowledgements. The gateway sends at most 512 KiB without an acknowledgement. */
const ackEveryBytes = 64 * 1024
const normalClosure = 1000

export interface ProgramRun {
  /** UUID of the guest. */
  readonly guest: string
  readonly command: readonly string[]
  readonly input: AsyncIterable<Buffer>
  /** Writes to the standard output. Until the promise resolves, the program's further output waits. */
  output(bytes: Buffer): Promise<void>
  errors(bytes: Buffer): Promise<void>
  /** When this signal is aborted, the program ends. */
  readonly signal: AbortSignal
}

/** Input for a program that gets no input. */
export async function* noInput(): AsyncGenerator<Buffer> {
  yield* []
}

/**
 * Runs a program in a guest without a terminal.
 * @returns the exit code of the program, or 128 plus the number of the signal that ended it
 * @throws {CliError} if it cannot be started, or the connection ends before the program
 */
export async function runProgram(session: Session, run: ProgramRun): Promise<number> {
  const { guest, command } = run
  const request = { kind: 'ssh', protocol: 'berth.console.v1', query: { mode: 'run' } } as const
  const opening = openConsoleSocket(session, { ...request, guest, command })
  const socket = await Promise.race([opening, interruption(run.signal)])
  return new RunningProgram(socket, run).exitCode
}

/** Rejects when the user interrupts the command. */
function interruption(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    const interrupted = new CliError(exitCodes.interrupted, 'interrupted before the program was started')
    signal.addEventListener('abort', () => reject(interrupted), { once: true })
  })
}

/** Messages of the gateway about a program. */
interface Message {
  readonly type: string
  readonly state?: string
  readonly bytes?: number
  readonly exit_code?: number
}

class RunningProgram {
  readonly exitCode: Promise<number>
  readonly #reader = new ProgramOutputReader()
  #resolve: (exitCode: number) => void = () => undefined
  #reject: (error: Error) => void = () => undefined
  /** Resolves when all output received so far was written. */
  #writing: Promise<void> = Promise.resolve()
  #written = 0
  #acknowledged = 0
  #sent = 0
  #taken = 0
  #hasRoom: () => void = () => undefined

  constructor(
    private readonly socket: WebSocket,
    private readonly run: ProgramRun,
  ) {
    this.exitCode = new Promise((resolve, reject) => {
      this.#resolve = resolve
      this.#reject = reject
    })
    socket.on('message', (data: Buffer, isBinary) => {
      if (isBinary) this.#show(data)
      else this.#read(JSON.parse(data.toString()) as Message)
    })
    socket.once('error', (cause) =>
      this.#reject(new CliError(exitCodes.unreachable, `the program cannot be run: ${cause.message}`)),
    )
    socket.once('close', (code, reason) => this.#closed(code, reason.toString()))
    if (run.signal.aborted) this.#interrupt()
    else run.signal.addEventListener('abort', () => this.#interrupt(), { once: true })
  }

  #interrupt(): void {
    this.#fail(new CliError(exitCodes.interrupted, 'interrupted: the program was ended'))
  }

  /** Reports an error and ends the program. */
  #fail(error: Error): void {
    this.#reject(error)
    this.socket.close(normalClosure)
  }

  #closed(code: number, reason: string): void {
    const lost = new CliError(exitCodes.unreachable, 'the connection ended before the program did')
    this.#reject(closeError(code, reason) ?? lost)
    this.#hasRoom()
  }

  #read({ type, state, bytes = 0, exit_code: code = -1 }: Message): void {
    if (state === 'ready') this.#feed().catch((error: Error) => this.#fail(error))
    if (type === 'taken') {
      this.#taken = bytes
      this.#hasRoom()
    }
    if (state === 'exited') this.#later(() => this.#exited(code))
  }

  async #exited(code: number): Promise<void> {
    if (code < 0) return this.#fail(new CliError(exitCodes.failed, 'the exit code of the program is not known'))
    this.#resolve(code)
    this.socket.close(normalClosure)
  }

  #show(data: Buffer): void {
    this.#later(async () => {
      for (const { output, bytes } of this.#reader.read(data))
        await (output === 1 ? this.run.output(bytes) : this.run.errors(bytes))
      this.#written += data.length
      if (this.#written - this.#acknowledged < ackEveryBytes) return
      this.#acknowledged = this.#written
      this.#send(JSON.stringify({ type: 'ack', bytes: this.#written }))
    })
  }

  /** Runs `act` after all output received so far was written. */
  #later(act: () => Promise<void>): void {
    this.#writing = this.#writing.then(act)
    this.#writing.catch((error: Error) => this.#fail(error))
  }

  async #feed(): Promise<void> {
    for await (const chunk of this.run.input)
      for (let at = 0; at < chunk.length; at += inputFrameBytes)
        await this.#sendInput(chunk.subarray(at, at + inputFrameBytes))
    this.#send(JSON.stringify({ type: 'eof' }))
  }

  async #sendInput(bytes: Buffer): Promise<void> {
    while (this.#isOpen && this.#sent + bytes.length - this.#taken > inputWindowBytes)
      await new Promise<void>((resolve) => (this.#hasRoom = resolve))
    this.#sent += bytes.length
    this.#send(bytes)
  }

  get #isOpen(): boolean {
    return this.socket.readyState === this.socket.OPEN
  }

  #send(message: Buffer | string): void {
    if (this.#isOpen) this.socket.send(message)
  }
}
