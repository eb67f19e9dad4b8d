import { planProblems, type Problem } from '../doctor/plan-problems.js'
import { readFacts, type ReadFacts } from '../doctor/read-facts.js'
import { CliError, exitCodes } from '../errors.js'
import { formatResult } from '../output/print.js'
import { printable } from '../output/width.js'
import { openSession, outputOptions, type GlobalOptions } from '../session.js'
import type { Surroundings } from '../surroundings.js'

export interface DoctorRun {
  readonly options: GlobalOptions
  readonly surroundings: Surroundings
}

/** Prints problems of the fleet. @throws {CliError} `failed` if there are any, `notAllowed` if nothing was checked */
export async function runDoctor({ options, surroundings }: DoctorRun): Promise<void> {
  const output = outputOptions(options, 'doctor', surroundings.width)
  const { client } = await openSession(surroundings, options)
  const { facts, unchecked, isAllUnchecked } = await readFacts(client, surroundings.nowMs())
  const problems = planProblems(facts)
  const isText = output.form === 'table' && output.columns === undefined && !output.isQuiet
  const value = output.form === 'json' || output.form === 'yaml' ? { problems, unchecked } : problems
  surroundings.writeOut(isText ? textOf(problems) : await formatResult(value, '', output))
  for (const { part, reason } of unchecked) surroundings.writeError(`Not checked: ${part} (${printable(reason)})\n`)
  if (isAllUnchecked)
    throw new CliError(exitCodes.notAllowed, 'nothing could be checked', 'use a key with the scope host:read')
  if (problems.length > 0) throw new CliError(exitCodes.failed, countOf(problems.length, 'problem'))
  if (isText) surroundings.writeOut(`No problems found. Checked: ${checkedText(facts)}.\n`)
}

function textOf(problems: readonly Problem[]): string {
  return problems.map(({ message, next }) => `- ${printable(message)}\n  ${printable(next)}\n`).join('')
}

const countOf = (count: number, noun: string): string => `${count} ${noun}${count === 1 ? '' : 's'}`

function checkedText({ hosts, gateways, failedTasks, ssl }: ReadFacts['facts']): string {
  const parts = [
    hosts && countOf(hosts.length, 'host'),
    gateways && countOf(gateways.length, 'gateway'),
    failedTasks && 'tasks of the last day',
    ssl && 'certificates',
  ]
  return parts.filter(Boolean).join(', ') || 'nothing'
}
