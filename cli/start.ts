import { CommanderError } from 'commander'
import { loadOperations } from './catalog/load.js'
import { cliErrorOf, exitCodes, FilterError, type ExitCode } from './errors.js'
import { helpWords } from './help/help-words.js'
import { printable } from './output/width.js'
import { createProgram } from './program.js'
import type { Surroundings } from './surroundings.js'

/** Runs a command. @param given the command line without the name of the program */
export async function runCommand(given: readonly string[], surroundings: Surroundings): Promise<ExitCode> {
  try {
    const operations = loadOperations()
    const words = helpWords(given, new Set(['context', ...operations.map(({ noun }) => noun)]))
    await createProgram({ operations, surroundings, words }).parseAsync(words, { from: 'user' })
    return exitCodes.ok
  } catch (cause) {
    return report(cause, surroundings)
  }
}

/** Prints an error. Commander prints its help itself. */
function report(cause: unknown, surroundings: Surroundings): ExitCode {
  if (cause instanceof CommanderError) return cause.exitCode === 0 ? exitCodes.ok : exitCodes.usage
  if (cause instanceof FilterError) surroundings.writeOut(cause.unfiltered)
  const error = cliErrorOf(cause)
  const { message } = error ?? (cause as Error)
  const red = useColor(surroundings) ? ['\u001b[31m', '\u001b[0m'] : ['', '']
  const lines = message.trimEnd().split('\n').map(printable)
  surroundings.writeError(`${red[0]}berth: ${lines.join('\nberth: ')}${red[1]}\n`)
  if (error?.hint !== undefined) surroundings.writeError(`${error.hint.split('\n').map(printable).join('\n')}\n`)
  return error?.exitCode ?? exitCodes.failed
}

/** https://no-color.org: any value except an empty one turns colors off. */
const useColor = ({ env, hasProgress }: Surroundings): boolean =>
  hasProgress && !env['NO_COLOR'] && env['TERM'] !== 'dumb'
