import { Mutex } from '../../../shared/async/mutex.js'
import { CommandError, start } from './process.js'

/*
 * This module runs a long-lived tool that reads commands from its standard input. A command takes a tenth of the time
 * of a process start and does not block the agent. After each command, a marker is sent: a command without effect. Its
 * output shows that the tool has executed everything before the marker.
 */

export interface PipeTool {
  readonly program: string
  readonly args: readonly string[]
  readonly marker: string
  /** Stream on which the marker's output appears. Default: stdout. */
  readonly markerOn?: 'stdout' | 'stderr'
  /** @returns the output of the commands before the marker; undefined until the marker's own output has arrived */
  readonly beforeMarker: (output: string) => string | undefined
  /**
   * Number of commands after which the tool's process is replaced, because nft, ip and tc leak memory. Infinity: the
   * process is never replaced, even while it is unused.
   */
  readonly recycleAfter: number
  /** Called if the tool has ended by itself. */
  readonly onLost?: () => void
}

export interface PipeOutput {
  readonly stdout: string
  readonly stderr: string
}

const timeoutMs = 60_000
/** Time in ms after which an unused tool is ended. A tool takes 20 MiB, but a new start takes only a few ms. */
const idleMs = 10_000
/** Maximum stored characters of the stream without the marker. nft can repeat a line of megabytes on stderr. */
const maxUnmarked = { stdout: Infinity, stderr: 64 * 1024 }
/**
 * Matches the message that ip and tc print if interfaces were added or removed during a listing. This is not a failure,
 * because the next listing is complete.
 */
const interrupted = /^Dump was interrupted and may be inconsistent\.\n/gm

/** Last use of each tool process, by pid. Ended tools stay for a while, because their changes can be reported late. */
const toolPids = new Map<number, number>()
/** Time in ms for which a pid is remembered after its last use: a little more than the timeout of a command. */
const pidKeptMs = timeoutMs + 5_000

export function noteToolPid(pid: number): void {
  const now = performance.now()
  toolPids.set(pid, now)
  for (const [old, usedAtMs] of toolPids) if (now - usedAtMs > pidKeptMs) toolPids.delete(old)
}

/** True if a process is, or recently was, a tool of this agent. */
export function isToolPid(pid: number): boolean {
  return performance.now() - (toolPids.get(pid) ?? -Infinity) <= pidKeptMs
}

type Child = ReturnType<typeof start>

export class ToolPipe {
  #child: Child | undefined
  #used = 0
  readonly #mutex = new Mutex()
  #idle: NodeJS.Timeout | undefined

  constructor(private readonly tool: PipeTool) {}

  /**
   * Sends one line. Calls run one after another.
   * @throws {CommandError} with code null if the tool ended or hung, so that the effect of the line is unknown
   */
  send(line: string): Promise<PipeOutput> {
    return this.#mutex.run(() => this.#exchange(line))
  }

  /** Ends the tool after it has run the pending lines. A later `send` starts it again. */
  async close(): Promise<void> {
    await this.#mutex.settled()
    await this.#retire()
  }

  #ready(): Child {
    clearTimeout(this.#idle)
    if (this.#child && this.#used >= this.tool.recycleAfter) void this.#retire()
    this.#used++
    return (this.#child ??= this.#start())
  }

  #start(): Child {
    const child = start(this.tool.program, this.tool.args)
    this.#used = 1
    child.stdout.setEncoding('utf8')
    child.stderr.setEncoding('utf8')
    child.stdin.on('error', () => undefined) // EPIPE: the tool has ended, and the event `close` rejects pending lines
    const gone = (): void => {
      if (this.#child !== child) return
      this.#child = undefined
      this.tool.onLost?.()
    }
    child.once('error', gone).once('exit', gone)
    return child
  }

  async #retire(): Promise<void> {
    clearTimeout(this.#idle)
    const child = this.#child
    this.#child = undefined
    if (!child || child.exitCode !== null || child.signalCode !== null) return
    const ended = new Promise((resolve) => child.once('close', resolve))
    child.stdin.end()
    await ended
  }

  async #exchange(line: string): Promise<PipeOutput> {
    const child = this.#ready()
    if (child.pid !== undefined) noteToolPid(child.pid)
    try {
      return await exchange(child, this.tool, line)
    } finally {
      if (this.tool.recycleAfter !== Infinity) this.#idle = setTimeout(() => void this.#retire(), idleMs).unref()
    }
  }
}

function exchange(child: Child, tool: PipeTool, line: string): Promise<PipeOutput> {
  return new Promise((resolve, reject) => {
    const output = { stdout: '', stderr: '' }
    const { markerOn = 'stdout' } = tool
    const onOutput = (on: 'stdout' | 'stderr', chunk: string): void => {
      if (on === markerOn || output[on].length < maxUnmarked[on]) output[on] += chunk
      const before = on === markerOn ? tool.beforeMarker(output[on]) : undefined
      // Output of the tool's other stream can still be unread. Node reads this output before it runs `setImmediate`.
      if (before !== undefined)
        setImmediate(() => settle(() => resolve(withoutNotes({ ...output, [markerOn]: before }))))
    }
    const onStdout = (chunk: string): void => onOutput('stdout', chunk)
    const onStderr = (chunk: string): void => onOutput('stderr', chunk)
    const settle = (how: () => void): void => {
      clearTimeout(timer)
      child.stdout.off('data', onStdout)
      child.stderr.off('data', onStderr)
      child.off('close', onClose).off('error', onClose)
      how()
    }
    const onClose = (): void =>
      settle(() => reject(new CommandError(tool.program, null, output.stderr, 'the program ended before it answered')))
    const timer = setTimeout(() => child.kill('SIGKILL'), timeoutMs)
    child.stdout.on('data', onStdout)
    child.stderr.on('data', onStderr)
    child.once('close', onClose).once('error', onClose)
    child.stdin.write(`${line}\n${tool.marker}\n`)
  })
}

function withoutNotes({ stdout, stderr }: PipeOutput): PipeOutput {
  return { stdout, stderr: stderr.replace(interrupted, '') }
}
