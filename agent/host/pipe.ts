import { CommandError, start } from './process.js'

/*
 * A long-lived tool that reads commands from its standard input: a command costs a tenth of a spawn, and
 * nothing in the agent's own process blocks for it. After each command a marker is sent, one without effect
 * whose output tells that all before it is done.
 */

export interface PipeTool {
  readonly program: string
  readonly args: readonly string[]
  readonly marker: string
  /** Where the marker's output comes; default stdout. */
  readonly markerOn?: 'stdout' | 'stderr'
  /** What precedes the marker's output there; undefined while it has not come. */
  readonly beforeMarker: (output: string) => string | undefined
  /** Commands after which the process is replaced: these tools leak a little. Infinity: never, nor when unused. */
  readonly recycleAfter: number
  /** The tool ended without having been told to. */
  readonly onLost?: () => void
}

export interface PipeOutput {
  readonly stdout: string
  readonly stderr: string
}

const timeoutMs = 60_000
/** An unused tool is ended: it holds 20 MiB, starting it again costs a few milliseconds. */
const idleMs = 10_000
/** nft repeats the failed line on stderr, which may be megabytes; what was asked for is kept whole. */
const maxUnmarked = { stdout: Infinity, stderr: 64 * 1024 }
/**
 * ip and tc say so where interfaces came or went while they listed them, the marker's listing included: nothing has
 * failed, and what a list lacks is found by the next one.
 */
const interrupted = /^Dump was interrupted and may be inconsistent\.\n/gm

/** When tools were used last, by their pids: what a tool did may be seen after it ended. */
const toolPids = new Map<number, number>()
/** As long as a tool may take, and a little. Its pid is another program's some day. */
const pidKeptMs = timeoutMs + 5_000

export function noteToolPid(pid: number): void {
  const now = performance.now()
  toolPids.set(pid, now)
  for (const [old, usedAtMs] of toolPids) if (now - usedAtMs > pidKeptMs) toolPids.delete(old)
}

/** Whether a process is or was a tool of this agent a moment ago. */
export function isToolPid(pid: number): boolean {
  return performance.now() - (toolPids.get(pid) ?? -Infinity) <= pidKeptMs
}

type Child = ReturnType<typeof start>

export class ToolPipe {
  #child: Child | undefined
  #used = 0
  #queue: Promise<unknown> = Promise.resolve()
  #idle: NodeJS.Timeout | undefined

  constructor(private readonly tool: PipeTool) {}

  /**
   * Sends one line; calls run one after another.
   * @throws {CommandError} with code null when the tool ended or hung: whether the line took effect is unknown
   */
  send(line: string): Promise<PipeOutput> {
    const result = this.#queue.then(() => this.#exchange(line))
    this.#queue = result.catch(() => undefined)
    return result
  }

  /** Ends the tool after what was sent. A later `send` starts it again. */
  async close(): Promise<void> {
    await this.#queue
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
    child.stdin.on('error', () => undefined) // EPIPE: it ended; its 'close' rejects what waits
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
      if (this.tool.recycleAfter !== Infinity)
        this.#idle = setTimeout(() => void this.#retire(), idleMs).unref()
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
      // What was written to the other stream before the marker is read within this turn of the event loop.
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
      settle(() =>
        reject(new CommandError(tool.program, null, output.stderr, 'ended before the command was done')),
      )
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
