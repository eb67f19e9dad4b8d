import { readFileSync, writeFileSync } from 'node:fs'
import { join, relative, resolve } from 'node:path'
import { inspect } from 'node:util'
import { reporters, type MochaOptions, type Runnable, type Runner, type Suite, type Test } from 'mocha'
import type { ReportedResult } from './processes.js'
import { mapPlaces } from './stacks.js'

/*
 * A Mocha reporter: the spec output, plus two files in the directory that --reporter-option results=DIRECTORY names.
 * `at` contains the running test or hook, `result.json` the results of all tests. If a forgotten handle keeps the
 * process open after its tests, the reporter ends the process.
 */

const limits = { messageCharacters: 2000, diffLines: 30, diffColumns: 200, stackLines: 5 }
const endWithinMs = 30_000

/** Root directory of the compiled sources. */
const root = resolve(import.meta.dirname, '../..')

/** The parts of a Mocha error that the reporter shows. */
interface ShownError {
  readonly name?: string
  readonly message?: string
  readonly stack?: string | undefined
  readonly cause?: unknown
  readonly actual?: unknown
  readonly expected?: unknown
}

export default class ResultsReporter extends reporters.Spec {
  constructor(runner: Runner, options: MochaOptions) {
    super(runner, options)
    const { results: directory } = options.reporterOptions as { results: string }
    const at = (runnable: Runnable): void => writeFileSync(join(directory, 'at'), titleOf(runnable))
    runner.on('test', at).on('hook', at)
    runner.on('fail', (_test, error: unknown) => mapError(error))
    const times = measureFiles(runner)
    runner.once('end', () => {
      const { passes, failures, pending } = this.stats
      const described = this.failures.map(describeFailure)
      const files = times()
      const write = (extra: readonly string[]): void =>
        writeResult(directory, {
          passed: passes,
          failed: failures + extra.length,
          skipped: pending,
          failures: [...described, ...extra],
          files,
          processorSeconds: readProcessorSeconds(),
        })
      write([])
      endLater(() => write([describeOpen(runner.suite)]))
    })
  }
}

function writeResult(directory: string, result: ReportedResult): void {
  writeFileSync(join(directory, 'result.json'), JSON.stringify(result))
}

function endLater(report: () => void): void {
  setTimeout(() => {
    report()
    process.exit()
  }, endWithinMs).unref()
}

/** Measures the seconds that the suites of each file take, including hooks. */
function measureFiles(runner: Runner): () => [file: string, seconds: number][] {
  const spent = new Map<string, number>()
  let began = 0
  const isOfFile = ({ parent }: Suite): boolean => parent?.root === true
  runner.on('suite', (suite) => {
    if (isOfFile(suite)) began = performance.now()
  })
  runner.on('suite end', (suite) => {
    if (!isOfFile(suite)) return
    const file = fileOf(suite)
    spent.set(file, (spent.get(file) ?? 0) + performance.now() - began)
  })
  return () => [...spent].map(([file, ms]) => [file, ms / 1000])
}

/** Returns the CPU seconds of this process and its ended descendants (proc_pid_stat(5), fields 14 to 17). */
function readProcessorSeconds(): number {
  const ticksPerSecond = 100
  const fields = readFileSync('/proc/self/stat', 'utf8')
    .replace(/^.*\) /, '')
    .split(' ')
  const ticks = fields.slice(11, 15).reduce((sum, field) => sum + Number(field), 0)
  return ticks / ticksPerSecond
}

const titleOf = (runnable: Runnable): string => runnable.titlePath().join(' › ')
const fileOf = ({ file }: { file?: string | undefined }): string =>
  file ? relative(root, file).replace(/\.js$/, '.ts') : ''

function describeFailure(test: Test): string {
  const error = describeError(test.err).map((line) => `    ${line}`)
  return [fileOf(test), `  ${titleOf(test)}`, ...error, '', ''].join('\n')
}

/** @param thrown usually an error; tests and hooks may throw any value */
function describeError(thrown: unknown): string[] {
  if (!(thrown instanceof Object)) return [String(thrown)]
  const error = thrown as ShownError
  const message = (error.message ?? inspect(thrown)).slice(0, limits.messageCharacters)
  const name = error.name && !message.startsWith(error.name) ? `${error.name}: ` : ''
  const cause = error.cause === undefined ? [] : ['caused by:', ...describeError(error.cause)]
  return [...`${name}${message}`.split('\n'), ...diffOf(error), ...stackOf(error), ...cause]
}

/** Compares the two sides of a failed assertion, which Mocha has already converted to text. */
function diffOf({ actual, expected }: ShownError): string[] {
  if (typeof actual !== 'string' || typeof expected !== 'string' || actual === expected) return []
  const lines = reporters.Base.generateDiff(actual, expected).split('\n')
  const shown = lines.filter((line) => line.trim()).slice(0, limits.diffLines)
  return shown.map((line) => line.slice(0, limits.diffColumns))
}

/** Returns the first calls in the stack that are in the repository. If it has no such calls, returns its first ones. */
function stackOf({ stack }: ShownError): string[] {
  const lines = String(stack ?? '').split('\n')
  const calls = lines.map((line) => line.trim()).filter((line) => line.startsWith('at '))
  const own = calls.filter((line) => !/node:|node_modules/.test(line))
  return (own.length > 0 ? own : calls).slice(0, limits.stackLines).map((line) => `  ${line}`)
}

/** Replaces places in compiled files by places in the sources. Messages can contain the output of other programs. */
function mapError(thrown: unknown): void {
  if (!(thrown instanceof Error)) return
  const { stack, message } = thrown
  const replace = (name: string, value: string): boolean =>
    Reflect.defineProperty(thrown, name, { value, writable: true, configurable: true }) // a DOMException has getters
  replace('message', mapPlaces(message))
  replace('stack', mapPlaces(stack ?? ''))
  mapError(thrown.cause)
}

interface OpenHandle {
  readonly localPort?: number
  readonly remotePort?: number
  readonly pid?: number
  readonly spawnargs?: readonly string[]
}

/** Lists what keeps the process open: types of resources, with details of connections and child processes. */
function describeOpen({ suites }: Suite): string {
  const files = [...new Set(suites.map(fileOf))].join(' ')
  const active = process as unknown as { _getActiveHandles(): OpenHandle[] }
  const handles = active._getActiveHandles().flatMap(({ localPort, remotePort, pid, spawnargs }) => {
    if (remotePort) return [`connection ${localPort} to ${remotePort}`]
    return pid ? [`process ${pid} ${spawnargs?.join(' ')}`] : []
  })
  const open = [...process.getActiveResourcesInfo(), ...handles].join(', ')
  const text = `${files}\n  still open ${endWithinMs / 1000} s after the tests: ${open}\n\n`
  console.error(text)
  return text
}
