// Mocha's spec output, plus files in the directory that --reporter-option results=DIRECTORY names; root=DIRECTORY is where
// tests are compiled:
//   at        the test or hook that runs
//   counts    when all have: passes, failures, pending as JSON
//   files     `N s FILE`, where several share the process, the slowest first
//   failures  of each failed test file, title, error and where it came from, to be read
// A process that goes on without a test, held by a handle that one left open, is ended.
const { writeFileSync } = require('node:fs')
const { join, relative } = require('node:path')
const { reporters } = require('mocha')

const limits = { messageCharacters: 2000, diffLines: 30, diffColumns: 200, stackLines: 5 }
const endWithinMs = 30_000

let root = process.cwd()

module.exports = class ResultsReporter extends reporters.Spec {
  constructor(runner, options) {
    super(runner, options)
    const directory = options?.reporterOption?.results
    if (!directory) return
    root = options.reporterOption.root ?? root
    const write = (name, text) => writeFileSync(join(directory, name), text)
    const at = (runnable) => write('at', titleOf(runnable))
    runner.on('test', at).on('hook', at)
    const times = timesOf(runner)
    runner.once('end', () => {
      const { passes, failures, pending } = this.stats
      const count = (failures) => write('counts', `${JSON.stringify({ passes, failures, pending })}\n`)
      const texts = this.failures.map(describeFailure)
      write('files', times())
      write('failures', texts.join(''))
      count(failures)
      setTimeout(() => {
        const left = describeLeft(runner)
        console.error(left)
        write('failures', [...texts, left].join(''))
        count(failures + 1)
        process.exit()
      }, endWithinMs).unref()
    })
  }
}

/** Of the suites of each file, hooks included. */
function timesOf(runner) {
  const spent = new Map()
  let began = 0
  const isOfFile = ({ parent }) => parent?.root === true
  runner.on('suite', (suite) => isOfFile(suite) && (began = performance.now()))
  runner.on('suite end', (suite) => {
    if (!isOfFile(suite)) return
    const file = fileOf(suite)
    spent.set(file, (spent.get(file) ?? 0) + performance.now() - began)
  })
  return () => {
    const slowest = [...spent].sort(([, a], [, b]) => b - a)
    return slowest.map(([file, ms]) => `${Math.round(ms / 1000)} s ${file}\n`).join('')
  }
}

const titleOf = (runnable) => runnable.titlePath().join(' › ')
const fileOf = ({ file }) => (file ? relative(root, file).replace(/\.js$/, '.ts') : '')

function describeFailure(test) {
  const error = describeError(test.err).map((line) => `    ${line}`)
  return [fileOf(test), `  ${titleOf(test)}`, ...error, '', ''].join('\n')
}

function describeError(error) {
  const message = String(error?.message ?? error).slice(0, limits.messageCharacters)
  const name = error?.name && !message.startsWith(error.name) ? `${error.name}: ` : ''
  const cause = error?.cause === undefined ? [] : ['caused by:', ...describeError(error.cause)]
  return [...`${name}${message}`.split('\n'), ...diffOf(error), ...stackOf(error), ...cause]
}

/** By now Mocha has made text of both sides. */
function diffOf(error) {
  if (!reporters.Base.showDiff(error) || typeof error.actual !== 'string') return []
  const lines = reporters.Base.generateDiff(error.actual, error.expected).split('\n')
  const shown = lines.filter((line) => line.trim()).slice(0, limits.diffLines)
  return shown.map((line) => line.slice(0, limits.diffColumns))
}

/** Our own lines where there are any. */
function stackOf(error) {
  const lines = String(error?.stack ?? '').split('\n')
  const calls = lines.map((line) => line.trim()).filter((line) => line.startsWith('at '))
  const own = calls.filter((line) => !/node:|node_modules/.test(line))
  return (own.length > 0 ? own : calls).slice(0, limits.stackLines).map((line) => `  ${line}`)
}

/** What keeps the process from ending, as far as node tells. */
function describeLeft({ suite }) {
  const files = [...new Set(suite.suites.map(fileOf))].join(' ')
  const handles = process._getActiveHandles().flatMap((handle) => {
    if (handle.remotePort) return [`connection ${handle.localPort} to ${handle.remotePort}`]
    return handle.pid ? [`process ${handle.pid} ${handle.spawnargs?.join(' ')}`] : []
  })
  const open = [...process.getActiveResourcesInfo(), ...handles].join(', ')
  return `${files}\n  still open ${endWithinMs / 1000} s after the tests: ${open}\n\n`
}
