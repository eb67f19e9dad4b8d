import { writeSync } from 'node:fs'
import { ReadStream } from 'node:tty'
import * as nodePty from 'node-pty'

export interface TerminalListener {
  readonly onData: (chunk: Buffer) => void
  /** Called once. @param code -1: not known */
  readonly onExit: (code: number) => void
  /** Called as input is taken by the other side. @param bytes since the last call */
  readonly onTaken: (bytes: number) => void
}

/** The other side of a console: a program on a pty, or a socket. */
export interface Terminal {
  /** Input waits in memory until it is taken; whoever writes bounds it by `onTaken`. */
  write(bytes: Buffer): void
  resize(columns: number, rows: number): void
  /** While paused, what writes to the terminal waits. */
  pause(): void
  resume(): void
  /** Hangs up. `onExit` is still called. */
  close(): void
}

/** A program with its arguments and whole environment. */
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
/** How long input waits that the terminal has no room for. */
const fullRetryMs = 10

/** What node-pty 1.1.0 calls itself, and its type lacks: forkpty(3), and TIOCSWINSZ on its descriptor. */
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
 * Runs a program on a pty of its own. node-pty leaves the descriptors of all terminals open in programs that it starts:
 * the program must close what is above 2. Only its native part is used, since the rest gives up output that nobody has
 * read 200 ms after the end, and writes in threads, where a descriptor may be another terminal's by then.
 * @throws {Error} when there are no more ptys or processes
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

/** @param fd master of a terminal. Waits for a program that uses the other side. @throws {Error} when it is no terminal */
export function setPtySize(fd: number, { columns, rows }: TerminalSize): void {
  native.resize(fd, columns, rows)
}

/** How long after its program's end a terminal stays open for output of what it left behind. */
const lastOutputMs = 200

/** How long a program may take to end after its terminal was closed. */
const hangupMs = 1000

export interface StartedPty {
  /** Master of the terminal, which is closed from here on. */
  readonly fd: number
  /** Of the program, which leads a process group. */
  readonly pid: number
  setSize(size: TerminalSize): void
  /** Called once the master is closed here. */
  letGo?(): void
}

/** A terminal with a program on it. */
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
    this.#output.on('error', () => undefined) // EIO: nobody has the terminal open any more
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
      // EIO: it has ended, which `onExit` tells.
    }
  }

  pause(): void {
    this.#output.pause()
  }

  resume(): void {
    this.#output.resume()
  }

  /** Hangs up: the kernel tells the program so (SIGHUP), and one that does not end of it is killed. */
  close(): void {
    this.#output.destroy()
    setTimeout(() => {
      if (this.#code === undefined) killGroup(this.started.pid)
    }, hangupMs).unref()
  }

  /** The program has ended; what it wrote may still be unread, and what it started may have the terminal open. */
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

/** Also what the program started and that did not go its own way. Does nothing for one that is gone. */
function killGroup(pid: number): void {
  try {
    process.kill(-pid, 'SIGKILL')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
  }
}

/** Adds to input that waits: little pieces become one, which takes less memory than they. */
export function addInput(waiting: Buffer[], bytes: Buffer): void {
  const last = waiting.at(-1)
  if (last && last.length + bytes.length <= joinedBytes) waiting[waiting.length - 1] = Buffer.concat([last, bytes])
  else waiting.push(bytes)
}

/** Input of a terminal, which waits while it is full: what a guest does not read costs the host nothing but memory. */
class PtyInput {
  #waiting: Buffer[] = []
  #closed = false
  #retry: NodeJS.Timeout | undefined

  constructor(
    private readonly fd: number,
    /** Owns the descriptor. */
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

  /** @returns bytes that the terminal took; undefined: none now, or never */
  #put(bytes: Buffer): number | undefined {
    if (this.#closed || this.owner.destroyed) return void this.close()
    try {
      return writeSync(this.fd, bytes) // does not block: the descriptor is non-blocking
    } catch (error) {
      // What fails for good has ended, which `onExit` tells.
      if ((error as NodeJS.ErrnoException).code !== 'EAGAIN') return void this.close()
      this.#retry = setTimeout(() => {
        this.#retry = undefined
        this.#flush()
      }, fullRetryMs)
      return undefined
    }
  }
}
