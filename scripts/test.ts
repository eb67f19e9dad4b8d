import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { availableParallelism, cpus, tmpdir } from 'node:os'
import { join } from 'node:path'
import { Command } from 'commander'
import { affectedTests, changedFiles, defaultBase, readGraph } from './runner/changed.js'
import { compile } from './runner/compile.js'
import {
  findTests,
  formatTimes,
  isComplete,
  planChains,
  readTimes,
  selectTests,
  splitJob,
  timesFile,
  type Chain,
  type Job,
} from './runner/jobs.js'
import { runInLanes, type Lanes } from './runner/lanes.js'
import { isOtherRunActive, removeLeftovers } from './runner/leftovers.js'
import { Processes, type JobResult } from './runner/processes.js'

/* The test runner (docs/development.md). scripts/test installs and builds what tests need, then starts this runner. */

/** Time limit of a test process. A process that takes longer has hung. */
const limitSeconds = 3600
const slowestCount = 10
const busyAtStart = readBusySeconds()
const signals = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const

interface Options {
  readonly unit?: true
  readonly list?: true
  readonly changed?: string | true
  readonly lanes?: string
  readonly record?: true
}

async function main(): Promise<void> {
  const { parts, isQuick, options } = parseArguments()
  const selected = selectTests(findTests(), { parts, unitOnly: options.unit === true, quickOnly: isQuick })
  const files = options.changed === undefined ? selected : await onlyAffected(selected, options.changed)
  const chains = planChains(files, readTimes())
  const lanes = lanesOf(isQuick, options.lanes)
  if (options.list) return listChains(chains, lanes)
  if (options.changed !== undefined && files.length === 0) return console.log('no test is affected')
  if (isComplete(files, findTests())) sweep()
  const run = new TestRun(chains, lanes)
  await run.run()
  if (options.record) record(run.results)
}

function parseArguments(): { parts: string[]; isQuick: boolean; options: Options } {
  const program = new Command('scripts/test')
    .description('Runs the tests. The last line of the output is "N passed, N failed".')
    .argument('[parts...]', '"quick": only tests without root and Debian packages; else parts of paths of test files')
    .option('--unit', 'only tests next to the code')
    .option('--list', 'list the processes in the order in which they would begin')
    .option('--changed [base]', 'only tests affected by changes since a commit (default: since origin/main, or HEAD)')
    .option('--lanes <count>', 'number of test processes at the same time')
    .option('--record', `write the durations to ${timesFile}`)
    .parse()
  const [first, ...others] = program.args
  const isQuick = first === 'quick'
  return { parts: isQuick ? others : program.args, isQuick, options: program.opts() }
}

/** Default: two lanes per CPU plus one, at most 8, because most test files mainly wait. Quick tests get one per CPU. */
function lanesOf(isQuick: boolean, count: string | undefined): Lanes {
  const processors = availableParallelism()
  const most = isQuick ? processors : Math.min(2 * processors + 1, 8)
  return { count: count === undefined ? most : Number(count), computing: processors }
}

async function onlyAffected(files: readonly string[], base: string | true): Promise<string[]> {
  const changed = changedFiles(base === true ? defaultBase() : base)
  return affectedTests(changed, files, await readGraph())
}

function listChains(chains: readonly Chain[], lanes: Lanes): void {
  const total = chains.reduce((sum, { seconds }) => sum + seconds, 0)
  for (const { jobs, group } of chains)
    for (const { label, seconds } of jobs)
      console.log(`${String(Math.round(seconds)).padStart(5)} s  ${label}${group ? `  [${group}]` : ''}`)
  const files = chains.flatMap(({ jobs }) => jobs.flatMap((job) => job.files))
  console.log(`${files.length} files, ${Math.round(total)} s in ${lanes.count} lanes`)
}

function sweep(): void {
  if (process.getuid?.() !== 0) return
  if (isOtherRunActive()) note('another test run or a benchmark is active: leftovers are not removed')
  else removeLeftovers()
}

class TestRun {
  readonly results: JobResult[] = []
  readonly #scratch = mkdtempSync(join(tmpdir(), 'btest-run.'))
  readonly #processes: Processes
  readonly #isLive: boolean
  #interruption: Promise<string[]> | undefined

  constructor(
    private readonly chains: readonly Chain[],
    private readonly lanes: Lanes,
  ) {
    this.#isLive = chains.flatMap(({ jobs }) => jobs).length <= 1
    this.#processes = new Processes({ scratch: this.#scratch, isLive: this.#isLive, limitSeconds })
  }

  async run(): Promise<void> {
    for (const name of signals) process.on(name, () => this.#interrupt())
    process.on('uncaughtException', (error) => this.#interrupt(error))
    process.on('exit', () => rmSync(this.#scratch, { recursive: true, force: true }))
    chmodSync(this.#scratch, 0o755) // other users, under whom tests start programs, must be able to read it
    await compile(join(this.#scratch, 'compiled'))
    const restore = this.#isLive ? () => undefined : keepForwarding()
    try {
      const running = runInLanes(this.chains, this.lanes, (chain) => this.#runJobs(chain.jobs))
      await running.catch((error: unknown) => this.#interrupt(error))
      const interruptions = (await this.#interruption) ?? []
      if (interruptions.length > 0) sweep() // interrupted tests could not clean up
      report(this.results, interruptions)
    } finally {
      restore()
    }
  }

  async #runJobs(jobs: readonly Job[]): Promise<void> {
    for (const job of jobs) {
      if (this.#interruption) return
      if (this.#isLive) say(job.label)
      const result = await this.#processes.run(job)
      if (this.#interruption) return
      this.#show(result)
      this.results.push(result)
      if (!result.isComplete) await this.#runJobs(splitJob(job))
    }
  }

  #show({ job, output, seconds, processorSeconds }: JobResult): void {
    if (output !== undefined) {
      say(job.label)
      process.stdout.write(readFileSync(output))
    }
    note(`${Math.round(seconds)} s, ${Math.round(processorSeconds)} s of processor time`)
  }

  /**
   * Ends the run. Results of files that have already ended are still shown, but the run counts as failed.
   * @param error a bug of the runner, or the error of writing to a closed output
   */
  #interrupt(error?: unknown): void {
    if (this.#interruption) return
    if (error !== undefined) console.error(error)
    process.exitCode = 1
    this.#interruption = this.#processes.interrupt().then((running) => [...running, 'the run was interrupted\n\n'])
  }
}

/**
 * Enables IP forwarding for the whole run. A test that restores the previous value would otherwise cut off the guests
 * of other tests.
 * @returns a function that restores the previous values
 */
function keepForwarding(): () => void {
  if (process.getuid?.() !== 0) return () => undefined
  const settings = ['/proc/sys/net/ipv4/ip_forward', '/proc/sys/net/ipv6/conf/all/forwarding']
  const before = settings.map((path) => [path, readFileSync(path, 'utf8')] as const)
  for (const path of settings) writeFileSync(path, '1')
  return () => before.forEach(([path, value]) => writeFileSync(path, value))
}

/** Prints the report. Failures come last, because a log can keep only the end of the output. */
function report(results: readonly JobResult[], interruptions: readonly string[]): void {
  const sum = (count: (result: JobResult) => number): number =>
    results.reduce((total, result) => total + count(result), 0)
  const failures = [...results.flatMap((result) => result.failures), ...interruptions]
  const passed = sum((result) => result.passed)
  const failed = sum((result) => result.failed) + interruptions.length
  const skipped = sum((result) => result.skipped)
  listSlowest(results)
  if (failed > 0) console.log(`\nfailed:\n\n${failures.join('')}`)
  if (skipped > 0) console.log(`skipped: ${skipped}`)
  const seconds = Math.round(performance.now() / 1000)
  console.log(`${Math.floor(seconds / 60)} min ${seconds % 60} s, ${processorText(results, seconds)}`)
  console.log(`${passed} passed, ${failed} failed`)
  process.exitCode = failed === 0 && passed > 0 ? 0 : 1
}

/**
 * Describes how much processor time was used, and how much of it the tests' processes used. If the host does no other
 * work, the difference is the work of guests, daemons and the kernel.
 */
function processorText(results: readonly JobResult[], seconds: number): string {
  const own = results.reduce((total, { processorSeconds }) => total + processorSeconds, 0)
  const [busy, all] = [readBusySeconds() - busyAtStart, seconds * cpus().length]
  return `${Math.round(busy)} of ${all} s of processor time used, ${Math.round(own)} s of it by the tests' processes`
}

/** Returns the seconds for which the processors of this host were busy in the time from its boot until now. */
function readBusySeconds(): number {
  const busyMs = cpus().flatMap(({ times: { user, nice, sys, irq } }) => [user, nice, sys, irq])
  return busyMs.reduce((sum, ms) => sum + ms, 0) / 1000
}

function listSlowest(results: readonly JobResult[]): void {
  const slowest = durations(results).sort(([, a], [, b]) => b - a)
  console.log('\nslowest:')
  for (const [name, seconds] of slowest.slice(0, slowestCount))
    console.log(`  ${String(Math.round(seconds)).padStart(4)} s  ${name}`)
}

/** Returns the durations by file. Tests next to the code have one duration for each folder. */
function durations(results: readonly JobResult[]): [name: string, seconds: number][] {
  return results.flatMap(({ job, files, seconds }) =>
    job.files.length > 1 && job.label.startsWith('test/')
      ? files.map(([file, ownSeconds]): [string, number] => [file, ownSeconds])
      : [[job.label, seconds] as [string, number]],
  )
}

/** Records the durations. Existing files that did not run keep their previous durations. */
function record(results: readonly JobResult[]): void {
  const known = new Set([...findTests(), ...planChains(findTests(), new Map()).flatMap(labelsOf)])
  const former = [...readTimes()].filter(([name]) => known.has(name))
  const current = durations(results).map(([name, seconds]) => [name, Math.round(seconds)] as const)
  writeFileSync(timesFile, formatTimes(new Map([...former, ...current])))
}

const labelsOf = ({ jobs }: Chain): string[] => jobs.map(({ label }) => label)

function say(text: string): void {
  console.log(process.stdout.isTTY ? `\x1b[1m==>\x1b[0m ${text}` : `==> ${text}`)
}

function note(text: string): void {
  console.log(`    ${text}`)
}

await main()
