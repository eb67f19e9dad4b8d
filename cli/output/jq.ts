import { spawnSync } from 'node:child_process'
import { CliError, exitCodes, usageError } from '../errors.js'
import { withoutControls } from './controls.js'
import { printable } from './width.js'

/**
 * Returns what the program `jq` makes of a text in JSON. It prints strings without quotes.
 * @throws {CliError} `usage` if the filter is wrong
 */
export function filterWithJq(json: string, filter: string): string {
  // The space before the filter keeps jq from reading it as an option. Version 1.6 does not know `--`.
  const { error, status, stdout, stderr } = spawnSync('jq', ['-r', ` ${filter}`], {
    input: json,
    encoding: 'utf8',
    maxBuffer: Infinity,
  })
  if (error) throw new CliError(exitCodes.failed, `--jq: cannot run jq: ${error.message}`, 'install the program jq')
  if (status !== 0) throw usageError(`--jq: ${printable(stderr.trim().split('\n')[0] ?? '')}`)
  return withoutControls(stdout)
}
