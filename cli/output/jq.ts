import { CliError, exitCodes, FilterError, usageError } from '../errors.js'
import { withoutControls } from './controls.js'
import { printable } from './width.js'

/**
 * Runs jq without input, which finds a wrong filter before a request has an effect.
 * @throws {CliError} `usage` if the filter is wrong, `failed` if jq cannot be run
 */
export function checkFilter(filter: string): void {
  runJq('', filter)
}

/**
 * Filters a text in JSON with the program `jq`. The result contains strings without quotes.
 * @throws {FilterError} if jq fails
 */
export function filterWithJq(json: string, filter: string): string {
  try {
    return withoutControls(runJq(json, filter))
  } catch (cause) {
    throw new FilterError((cause as Error).message, `${json}\n`)
  }
}

function describeStart({ code, message }: NodeJS.ErrnoException): string {
  return `--jq: ${code === 'ENOENT' ? 'the program jq is not installed' : `cannot run jq: ${message}`}`
}

function runJq(input: string, filter: string): string {
  const { spawnSync } = process.getBuiltinModule('node:child_process') // takes 10 ms, and most commands have no filter
  // The space before the filter keeps jq from reading it as an option. Version 1.6 does not know `--`.
  const { error, status, signal, stdout, stderr } = spawnSync('jq', ['-r', ` ${filter}`], {
    input,
    encoding: 'utf8',
    maxBuffer: Infinity,
  })
  // EPIPE: jq ended before it had read everything. Its exit code tells whether it failed.
  if (error && (error as NodeJS.ErrnoException).code !== 'EPIPE')
    throw new CliError(exitCodes.failed, describeStart(error), 'install the program jq, or use -o json')
  const [reason] = stderr.trim().split('\n')
  if (status !== 0) throw usageError(`--jq: ${printable(reason || `jq ended with ${signal ?? status}`)}`)
  return stdout
}
