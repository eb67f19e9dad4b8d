import { spawn, type ChildProcess } from 'node:child_process'
import type { Socket } from 'node:net'
import { perlProgram } from './perl-program.js'
import { findLiveProcess } from './proc.js'

/** A request to start a program, or a Perl program, with arguments. */
interface ProcessOrder {
  readonly kind: 'program' | 'perl'
  /** Name or path of the program. For a Perl program, the path of its file. */
  readonly program: string
  readonly args: readonly string[]
  readonly env: Readonly<Record<string, string>>
  readonly stdin: string | Buffer
  /** True if the process survives the end of the agent. */
  readonly survives: boolean
  /** True if the process gets the umask of services (022) instead of the agent's. */
  readonly ownUmask: boolean
}

/** A request to run a Perl program in the launcher's own process, which can do nothing else at this time. */
interface BriefOrder {
  readonly kind: 'brief'
  readonly program: string
}

export type LaunchOrder = ProcessOrder | BriefOrder

export interface LaunchListener {
  readonly onStart: (pid: number) => void
  readonly onOutput: (stream: 'stdout' | 'stderr', chunk: Buffer) => void
  /** Called when the process has ended and its outputs are closed. If it was killed, its outputs can still be open. */
  readonly onEnd: (end: LaunchEnd) => void
}

export interface LaunchEnd {
  /** Exit code. Null if a signal killed the process, or if the code is unknown because the launcher has ended. */
  readonly code: number | null
  readonly signal: number
}

interface LaunchedProcess {
  readonly listener: LaunchListener
  readonly survives: boolean
  pid?: number
  end?: LaunchEnd
  closed: boolean
}

const frameKinds = { program: 'R', perl: 'P', brief: 'B' } as const
const surviving = 1
const ownUmask = 2

/**
 * A small process that starts the agent's commands (perl/launcher.pl). A fork of the agent itself would copy the page
 * tables of all its memory, and block the agent for about 5 ms. The launcher is started at its first use and ends with
 * the agent.
 */
export class Launcher {
  #process: ChildProcess | undefined
  #nextId = 1
  #received: Buffer = Buffer.alloc(0)
  readonly #launched = new Map<number, LaunchedProcess>()

  /** @returns a function that kills the command, but not the processes that the command started */
  launch(order: LaunchOrder, listener: LaunchListener): () => void {
    const id = this.#nextId++ % 0xffffffff
    const survives = order.kind !== 'brief' && order.survives
    this.#launched.set(id, { listener, survives, closed: false })
    this.#send(id, frameKinds[order.kind], fieldsOf(order))
    return () => this.#kill(id)
  }

  #kill(id: number): void {
    const launched = this.#launched.get(id)
    if (!launched) return
    this.#send(id, 'K', [])
    launched.closed = true
    if (launched.end) this.#finish(id, launched.end)
  }

  #send(id: number, kind: string, fields: readonly (string | Buffer)[]): void {
    const child = (this.#process ??= this.#start())
    this.#hold(child)
    child.stdin?.write(encode(id, kind, fields))
  }

  #start(): ChildProcess {
    const args = ['--pdeathsig', 'KILL', '--', '/usr/bin/perl', perlProgram('launcher')]
    const child = spawn('/usr/bin/setpriv', args, { cwd: '/', env: {}, stdio: ['pipe', 'pipe', 'inherit'] })
    this.#received = Buffer.alloc(0)
    child.stdout.on('data', (chunk: Buffer) => this.#receive(chunk))
    child.stdin.on('error', () => undefined) // EPIPE: the launcher has ended, and the event `close` follows
    const gone = (): void => {
      if (this.#process === child) this.#lost()
    }
    child.once('error', gone).once('close', gone)
    return child
  }

  /**
   * Handles the end of the launcher. The kernel then kills the processes that the launcher started, so their outcome is
   * unknown. Processes with `survives` continue, and this function awaits their ends.
   */
  #lost(): void {
    this.#process = undefined
    const lost = { code: null, signal: 9 }
    for (const [id, { survives, pid }] of [...this.#launched]) {
      if (survives && pid !== undefined) untilGone(pid, () => this.#finish(id, lost))
      else this.#finish(id, lost)
    }
  }

  #receive(chunk: Buffer): void {
    let rest = this.#received.length === 0 ? chunk : Buffer.concat([this.#received, chunk])
    while (rest.length >= 9) {
      const end = 9 + rest.readUInt32BE(5)
      if (rest.length < end) break
      this.#take(rest.readUInt32BE(0), rest.toString('latin1', 4, 5), rest.subarray(9, end))
      rest = rest.subarray(end)
    }
    this.#received = rest
  }

  #take(id: number, kind: string, text: Buffer): void {
    const launched = this.#launched.get(id)
    if (!launched) return
    if (kind === 'O') return launched.listener.onOutput('stdout', text)
    if (kind === 'E') return launched.listener.onOutput('stderr', text)
    if (kind === 'S') return this.#started(launched, Number(text.toString('latin1')))
    if (kind === 'C') launched.closed = true
    else launched.end = parseEnd(text.toString('latin1'))
    if (launched.end && launched.closed) this.#finish(id, launched.end)
  }

  #started(launched: LaunchedProcess, pid: number): void {
    launched.pid = pid
    launched.listener.onStart(pid)
  }

  #finish(id: number, end: LaunchEnd): void {
    const launched = this.#launched.get(id)
    this.#launched.delete(id)
    if (this.#process) this.#hold(this.#process)
    launched?.listener.onEnd(end)
  }

  /** Keeps the agent's process alive while commands run in the launcher, but not while the launcher is idle. */
  #hold(child: ChildProcess): void {
    const parts = [child, child.stdin as Socket | null, child.stdout as Socket | null]
    for (const part of parts)
      if (this.#launched.size > 0) part?.ref()
      else part?.unref()
  }
}

function fieldsOf(order: LaunchOrder): (string | Buffer)[] {
  if (order.kind === 'brief') return [order.program]
  const flags = (order.survives ? surviving : 0) | (order.ownUmask ? ownUmask : 0)
  return [String(flags), order.stdin, environmentOf(order.env), order.program, ...order.args]
}

function untilGone(pid: number, then: () => void): void {
  const timer = setInterval(() => {
    if (findLiveProcess(pid)) return
    clearInterval(timer)
    then()
  }, 20)
}

function environmentOf(env: Readonly<Record<string, string>>): string {
  return Object.entries(env)
    .map(([name, value]) => `${name}=${value}`)
    .join('\n')
}

function encode(id: number, kind: string, fields: readonly (string | Buffer)[]): Buffer {
  const parts: Buffer[] = [Buffer.alloc(9)]
  for (const field of fields) {
    const bytes = typeof field === 'string' ? Buffer.from(field) : field
    const length = Buffer.alloc(4)
    length.writeUInt32BE(bytes.length)
    parts.push(length, bytes)
  }
  const frame = Buffer.concat(parts)
  frame.writeUInt32BE(frame.length - 4, 0)
  frame.writeUInt32BE(id, 4)
  frame.write(kind, 8, 'latin1')
  return frame
}

function parseEnd(text: string): LaunchEnd {
  const [code = -1, signal = 0] = text.split(' ').map(Number)
  return signal > 0 ? { code: null, signal } : { code, signal: 0 }
}
