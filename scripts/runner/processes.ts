import { spawn, type ChildProcess, type StdioOptions } from 'node:child_process'
import { existsSync, mkdirSync, openSync, closeSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import type { Job } from './jobs.js'
import { mapPlaces } from './stacks.js'

/* Runs each job as a mocha process in a session of its own, and ends it together with all its descendants. */

const killAfterMs = 5000
const outputLines = 30

/** The result of a job, as the reporter writes it. */
export interface ReportedResult {
  readonly passed: number
  readonly failed: number
  readonly skipped: number
  readonly failures: readonly string[]
  readonly files: readonly (readonly [file: string, seconds: number])[]
  readonly processorSeconds: number
}

export interface JobResult extends ReportedResult {
  readonly job: Job
  readonly seconds: number
  /** Path of the file with the output; undefined if the output was shown while the job ran. */
  readonly output: string | undefined
  /** True if the reporter has written a result. */
  readonly isComplete: boolean
}

export interface RunSettings {
  /** Directory of the test run. Its subdirectory `compiled` contains the tests. */
  readonly scratch: string
  /** True to show the output while the job runs. */
  readonly isLive: boolean
  readonly limitSeconds: number
}

interface RunningJob {
  readonly job: Job
  readonly directory: string
  readonly child: ChildProcess
}

export class Processes {
  readonly #running = new Set<RunningJob>()
  #started = 0

  constructor(private readonly settings: RunSettings) {}

  async run(job: Job): Promise<JobResult> {
    const { scratch, isLive, limitSeconds } = this.settings
    const directory = join(scratch, 'runs', String((this.#started += 1)))
    mkdirSync(directory, { recursive: true })
    const output = isLive ? undefined : join(directory, 'output')
    const running = { job, directory, child: start(job, directory, { scratch, output }) }
    this.#running.add(running)
    const began = performance.now()
    const end = await endOf(running.child, limitSeconds)
    this.#running.delete(running)
    const seconds = (performance.now() - began) / 1000
    return { ...judge(running, end, output), job, seconds, output }
  }

  /** Kills all jobs with their descendants. @returns a message per job about the test that was running */
  async interrupt(): Promise<string[]> {
    const running = [...this.#running]
    await Promise.all(running.map(({ child }) => killFamily(child)))
    return running.map(({ job, directory }) => `${job.label}\n  interrupted in: ${readAt(directory)}\n\n`)
  }
}

function start(
  job: Job,
  directory: string,
  { scratch, output }: { scratch: string; output: string | undefined },
): ChildProcess {
  const [command = '', ...args] = [...namespaces(job), process.execPath, ...mochaArguments(job, directory, scratch)]
  const file = output === undefined ? 'inherit' : openSync(output, 'w')
  const stdio: StdioOptions = ['ignore', file, file]
  // PATH of a user other than root can lack the directories of programs such as losetup.
  const env = { ...process.env, PATH: `${process.env.PATH}:/usr/sbin:/sbin` }
  const child = spawn(command, args, { stdio, env, detached: true })
  if (typeof file === 'number') closeSync(file)
  return child
}

/**
 * Gives each process a mount namespace of its own. In a shared namespace, `ip netns exec` of one test would copy the
 * mounts of the other tests. The copies would keep these mounts in use.
 */
function namespaces({ inOwnNetwork }: Job): string[] {
  if (process.getuid?.() !== 0) return []
  return ['unshare', '--mount', '--propagation', 'private', ...(inOwnNetwork ? ['--net'] : [])]
}

/** Returns the arguments for Mocha's cli.js. The command `mocha` would start a second Node.js process. */
function mochaArguments({ files }: Job, directory: string, scratch: string): string[] {
  const compiled = (file: string): string => join(scratch, 'compiled', file.replace(/\.ts$/, '.js'))
  const reporter = ['--reporter', compiled('scripts/runner/reporter.ts')]
  const mocha = ['node_modules/mocha/lib/cli/cli.js', ...reporter]
  return [...mocha, '--reporter-option', `results=${directory}`, ...files.map(compiled)]
}

/** Describes how a process ended. `text` is the end of a sentence about the process. */
interface ProcessEnd {
  readonly isClean: boolean
  readonly text: string
}

async function endOf(child: ChildProcess, limitSeconds: number): Promise<ProcessEnd> {
  let killed: Promise<void> | undefined
  const timer = setTimeout(() => {
    killed = killFamily(child)
  }, limitSeconds * 1000)
  const [code, signal] = await new Promise<[number | null, string | null]>((resolve) => {
    child.once('exit', (...end) => resolve(end))
    child.once('error', () => resolve([null, 'no start']))
  })
  clearTimeout(timer)
  await killed
  if (killed) return { isClean: false, text: `did not end within ${limitSeconds} s` }
  return { isClean: code === 0, text: signal ? `ended by ${signal}` : `ended with code ${code}` }
}

/** Evaluates an ended process. The result has a failed test if the process crashed, hung or ended with an error. */
function judge(
  { job, directory }: RunningJob,
  end: ProcessEnd,
  output: string | undefined,
): ReportedResult & { isComplete: boolean } {
  const path = join(directory, 'result.json')
  if (!existsSync(path)) {
    const failure = `${job.label}\n  ${end.text} in: ${readAt(directory)}\n${lastLines(output)}\n`
    return {
      passed: 0,
      failed: 1,
      skipped: 0,
      failures: [failure],
      files: [],
      processorSeconds: 0,
      isComplete: false,
    }
  }
  const result = JSON.parse(readFileSync(path, 'utf8')) as ReportedResult
  if (end.isClean || result.failed > 0) return { ...result, isComplete: true }
  return {
    ...result,
    failed: 1,
    failures: [`${job.label}\n  ${end.text} after its tests\n\n`],
    isComplete: true,
  }
}

function readAt(directory: string): string {
  const path = join(directory, 'at')
  return existsSync(path) ? readFileSync(path, 'utf8') : 'loading'
}

function lastLines(path: string | undefined): string {
  if (path === undefined) return ''
  const lines = readFileSync(path, 'utf8').trimEnd().split('\n').slice(-outputLines)
  return mapPlaces(lines.map((line) => `    ${line}\n`).join(''))
}

interface ProcessEntry {
  readonly pid: number
  readonly parent: number
  readonly session: number
  /** Start time of the process. A process with the same pid but another start time is a different process. */
  readonly started: string
}

/**
 * Ends a process with its session and all descendants, by SIGTERM and later by SIGKILL. Processes that start between
 * the two signals are killed, too.
 */
async function killFamily({ pid }: ChildProcess): Promise<void> {
  if (pid === undefined) return
  let family = familyOf(pid)
  signal(family, 'SIGTERM')
  for (const deadline = performance.now() + killAfterMs; performance.now() < deadline; await delay(50)) {
    family = familyOf(pid, family)
    if (family.length === 0) return
  }
  signal(familyOf(pid, family), 'SIGKILL')
}

/** @param known members found earlier; they and their children belong to the family even if a parent has ended */
function familyOf(leader: number, known: readonly ProcessEntry[] = []): ProcessEntry[] {
  const entries = readProcesses()
  const sessions = new Set([leader, ...known.map(({ session }) => session)])
  sessions.delete(0) // session 0 contains threads of the kernel
  const started = new Map(known.map((entry) => [entry.pid, entry.started]))
  const family = new Map<number, ProcessEntry>()
  const add = (entry: ProcessEntry): void => {
    if (family.has(entry.pid)) return
    family.set(entry.pid, entry)
    for (const other of entries) if (other.parent === entry.pid) add(other)
  }
  for (const entry of entries) if (sessions.has(entry.session) || started.get(entry.pid) === entry.started) add(entry)
  return [...family.values()]
}

function signal(entries: readonly ProcessEntry[], name: NodeJS.Signals): void {
  for (const { pid } of entries)
    try {
      process.kill(pid, name)
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
    }
}

/** Returns all processes except zombies (proc_pid_stat(5)). */
function readProcesses(): ProcessEntry[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .flatMap((name) => {
      const fields = readStat(name)
      if (fields === undefined || fields[0] === 'Z') return []
      const [, parent, , session] = fields
      return [{ pid: Number(name), parent: Number(parent), session: Number(session), started: fields[19] ?? '' }]
    })
}

/** Returns the fields of /proc/PID/stat after the name of the process. The name can contain spaces. */
function readStat(pid: string): string[] | undefined {
  try {
    return readFileSync(`/proc/${pid}/stat`, 'utf8')
      .replace(/^[\s\S]*\) /, '')
      .split(' ')
  } catch {
    return undefined // the process has ended
  }
}
