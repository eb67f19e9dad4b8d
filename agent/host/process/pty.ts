import { writeSync } from 'node:fs'
import { ReadStream } from 'node:tty'
import * as nodePty from 'node-pty'

export interface TerminalListener {
  readonly onData: (chunk: Buffer) => void
  /** Called once, when the terminal has ended. @param code exit code; -1: unknown */
  readonly onExit: (code: number) => void
  /** Called when the terminal has accepted input. @param bytes number of bytes since the last call */
  readonly onTaken: (bytes: number) => void
}

/** The guest's side of a console: a program on a pty, or a socket. */
export interface Terminal {
  /** Queues input in memory until the terminal accepts it. Callers use `onTaken` to limit the queue. */
  write(bytes: Buffer): void
  /** Ends the input. Only programs without a terminal support this. */
  endInput?(): void
  resize(columns: number, rows: number): void
  /** Pauses the output. Programs that write to the terminal then block. */
  pause(): void
  resume(): void
  /** Hangs up. `onExit` is called when the terminal has ended. */
  close(): void
}

/** A program with its arguments and complete environment. */
export interface TerminalCommand {
  readonly program: string
  readonly args: readonly string[]
  readonly env: Readonly<Record<string, string>>
}

export interface TerminalSize {
  readonly columns: number
  readonly rows: number
}

const joinedBytes = 4096
/** Pause in ms before input is written again to a full terminal. */
const fullRetryMs = 10

/** Functions of node-pty 1.1.0 that its types omit: forkpty(3), and the ioctl TIOCSWINSZ on a descriptor. */
interface NativePty {
  fork(
    ...forked: [
      ...[program: string, args: readonly string[], env: readonly string[], cwd: string],
      ...[columns: number, rows: number],
      ...[uid: number, gid: number, utf8: boolean, helper: string],
      onExit: (code: number, signal: number) => void,
    ]
  ): { readonly fd: number; readonly pid: number }
  resize(fd: number, columns: number, rows: number): void
}

const { native } = nodePty as unknown as { readonly native: NativePty }
const sameUser = -1

/**
 * Runs a program on a new pty. The program must close descriptors above 2, because node-pty passes the descriptors of
 * all terminals to programs. Only the native part of node-pty is used. Its JavaScript part discards output that is
 * unread 200 ms after the program's end. It also writes in threads, so that a late write can reach another terminal.
 * @throws {Error} if no ptys or processes are available
 */
export function openPty(
  { program, args, env }: TerminalCommand,
  size: TerminalSize,
  listener: TerminalListener,
): Terminal {
  const variables = Object.entries(env).map(([name, value]) => `${name}=${value}`)
  const started = native.fork(
    ...([program, [...args], variables, '/', size.columns, size.rows] as const),
    ...([sameUser, sameUser, false, ''] as const),
    (code: number, signal: number) => pty.ended(signal ? 128 + signal : code),
  )
  const pty: Pty = new Pty({ ...started, setSize: (now) => setPtySize(started.fd, now) }, listener)
  return pty
}

/**
 * Sets a terminal's size. Blocks while a program locks the terminal, which a hostile program can do for a long time.
 * @param fd descriptor of the master
 * @throws {Error} if it is not a terminal
 */
export function setPtySize(fd: number, { columns, rows }: TerminalSize): void {
  native.resize(fd, columns, rows)
}

/** Time in ms for which a terminal stays open after its program has ended, for output of the program's children. */
const lastOutputMs = 200

/** Time in ms after which a program is killed if it has not ended after its terminal was closed. */
const hangupMs = 1000

export interface StartedPty {
  /** Descriptor of the terminal's master, which `Pty` closes. */
  readonly fd: number
  /** Pid of the program, which leads a process group. */
  readonly pid: number
  setSize(size: TerminalSize): void
  /** Called after `Pty` has closed `fd`. Lets the creator of the terminal release its other resources. */
  letGo?(): void
}

export class Pty implements Terminal {
  readonly #output: ReadStream
  readonly #input: PtyInput
  #code: number | undefined
  #heard = false
  #ending: NodeJS.Timeout | undefined

  constructor(
    private readonly started: StartedPty,
    private readonly listener: TerminalListener,
  ) {
    this.#output = new ReadStream(started.fd)
    this.#input = new PtyInput(started.fd, this.#output, (bytes) => listener.onTaken(bytes))
    this.#output.on('data', (chunk: Buffer) => {
      this.#heard = true
      listener.onData(chunk)
    })
    this.#output.on('error', () => undefined) // EIO: no process has the terminal open any more
    this.#output.on('close', () => {
      started.letGo?.()
      this.#settle()
    })
  }

  write(bytes: Buffer): void {
    this.#input.write(bytes)
  }

  resize(columns: number, rows: number): void {
    if (this.#output.destroyed) return
    try {
      this.started.setSize({ columns, rows })
    } catch {
      // Fails with EIO after the terminal has ended. `onExit` reports the end.
    }
  }

  pause(): void {
    this.#output.pause()
  }

  resume(): void {
    this.#output.resume()
  }

  /** Hangs up, so that the kernel sends SIGHUP to the program. Later kills a program that does not end by itself. */
  close(): void {
    this.#output.destroy()
    setTimeout(() => {
      if (this.#code === undefined) killGroup(this.started.pid)
    }, hangupMs).unref()
  }

  /** Call this when the program has ended. Its output can be unread, and its children can still use the terminal. */
  ended(code: number): void {
    this.#code = code
    if (this.#output.closed) return this.#settle()
    this.#ending = setInterval(() => {
      if (!this.#heard && !this.#output.isPaused()) this.#output.destroy()
      this.#heard = false
    }, lastOutputMs)
  }

  #settle(): void {
    if (this.#code === undefined || !this.#output.closed) return
    clearInterval(this.#ending)
    this.#input.close()
    this.listener.onExit(this.#code)
  }
}

/** Kills the program and its children in the same process group. Does nothing if no such process exists. */
function killGroup(pid: number): void {
  try {
    process.kill(-pid, 'SIGKILL')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
  }
}

/** Appends bytes to waiting input. Joins small pieces, because this takes less memory. */
export function addInput(waiting: Buffer[], bytes: Buffer): void {
  const last = waiting.at(-1)
  if (last && last.length + bytes.length <= joinedBytes) waiting[waiting.length - 1] = Buffer.concat([last, bytes])
  else waiting.push(bytes)
}

/** Writes input to a terminal. Input for a full terminal waits in memory, so that such a terminal blocks nobody. */
class PtyInput {
  #waiting: Buffer[] = []
  #closed = false
  #retry: NodeJS.Timeout | undefined

  constructor(
    private readonly fd: number,
    /** Stream that owns `fd`. When the stream is destroyed, it closes `fd`. */
    private readonly owner: { readonly destroyed: boolean },
    private readonly onTaken: (bytes: number) => void,
  ) {}

  write(bytes: Buffer): void {
    if (this.#closed || bytes.length === 0) return
    addInput(this.#waiting, bytes)
    if (!this.#retry) this.#flush()
  }

  close(): void {
    this.#closed = true
    this.#waiting = []
    clearTimeout(this.#retry)
  }

  #flush(): void {
    for (let first = this.#waiting[0]; first !== undefined; first = this.#waiting[0]) {
      const written = this.#put(first)
      if (written === undefined) return
      if (written === first.length) this.#waiting.shift()
      else this.#waiting[0] = first.subarray(written)
      this.onTaken(written)
    }
  }

  /** @returns the number of bytes that the terminal accepted; undefined if it is full or has ended */
  #put(bytes: Buffer): number | undefined {
    if (this.#closed || this.owner.destroyed) return void this.close()
    try {
      return writeSync(this.fd, bytes) // does not wait, because the descriptor is non-blocking
    } catch (error) {
      // EAGAIN: the terminal is full. After other errors, the terminal has ended, and `onExit` reports this.
      if ((error as NodeJS.ErrnoException).code !== 'EAGAIN') return void this.close()
      this.#retry = setTimeout(() => {
        this.#retry = undefined
        this.#flush()
      }, fullRetryMs)
      return undefined
    }
  }
}
