import type { Command, CommanderError } from 'commander'
import { usageError, type CliError } from '../errors.js'

/* This module converts the errors of commander, which reads the command line, to errors of this program. */

export interface UsageReport {
  /** An example of the command, without `berth`. */
  readonly example?: string
  /** Returns the names of missing arguments and flags, in addition to those that commander requires. */
  readonly missing?: () => readonly string[]
  /** Called before any other error about a flag is reported. */
  readonly check?: (() => void) | undefined
}

/** Makes a command report all missing parts at once, and the next step after any wrong usage. */
export function reportUsage<C extends Command>(command: C, report: UsageReport = {}): C {
  return command.exitOverride((cause) => {
    throw cause.exitCode === 0 || cause.code === 'commander.help' ? cause : usageErrorOf(cause, command, report)
  })
}

function usageErrorOf({ code, message }: CommanderError, command: Command, report: UsageReport): CliError {
  const path = pathOf(command)
  if (/missing(Argument|Mandatory)/.test(code))
    return missingError(path, report.missing?.() ?? missingOf(command), report.example)
  if (code === 'commander.unknownOption') report.check?.()
  const [problem = '', ...suggestion] = message.replace(/^error: /, '').split('\n')
  return usageError(problem, [...suggestion, `see berth ${path} --help`.replace('  ', ' ')].join('\n'))
}

/**
 * Returns the error for missing arguments and flags.
 * @param path noun and verb of the command
 * @param example an example of the command, without `berth`
 */
export function missingError(path: string, missing: readonly string[], example?: string): CliError {
  const lines = example === undefined ? [] : [`example: berth ${example}`]
  return usageError(`missing: ${missing.join(', ')}`, [...lines, `see berth ${path} --help`].join('\n'))
}

function missingOf(command: Command): string[] {
  const { registeredArguments, args, options } = command
  const names = registeredArguments.filter(({ required }, index) => required && args[index] === undefined)
  const flags = options.filter((one) => one.mandatory && command.getOptionValue(one.attributeName()) === undefined)
  return [...names.map((one) => one.name().toUpperCase()), ...flags.map(({ long }) => long ?? '')]
}

/** Returns noun and verb of a command. */
function pathOf(command: Command): string {
  const parents = command.parent ? pathOf(command.parent) : ''
  return command.parent ? `${parents} ${command.name()}`.trim() : ''
}
