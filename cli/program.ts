import { Option } from 'commander'
import { version } from '../shared/version.js'
import { describeNouns } from './catalog/nouns.js'
import type { Flag, Operation } from './catalog/operation.js'
import { exitCodeTexts } from './errors.js'
import { BerthCommand } from './help/berth-command.js'
import { flagDescription, objectSections, placeholderOf, valueHelp } from './help/operation-help.js'
import { missingParts, type Input } from './input/plan-request.js'
import { reportUsage } from './input/usage.js'
import { outputForms } from './output/print.js'
import type { GlobalOptions } from './session.js'
import type { Surroundings } from './surroundings.js'
import { addOwnCommands } from './own-commands.js'

/* This module builds the program's commands from the API's operations, and adds commands without an operation. */

export interface ProgramOptions {
  readonly operations: readonly Operation[]
  readonly surroundings: Surroundings
  /** Words of the command line. Only nouns among them get commands, because commands for all nouns would take 10 ms. */
  readonly words: readonly string[]
}

export function createProgram(options: ProgramOptions): BerthCommand {
  const { operations, surroundings, words } = options
  const program = new BerthCommand('berth')
    .description('Manages a fleet of Berth: hosts, guests, customers and everything else that the API offers.')
    .version(version, '--version', 'print the version')
    .addOption(new Option('-o, --output <form>', `form of the result: ${outputForms.join(', ')}`))
    .option('--columns <names>', 'columns or fields of the result, separated by commas')
    .option('--jq <filter>', 'print what the program jq selects from the JSON of the result')
    .option('-q, --quiet', 'print only ids')
    .option('--context <name>', 'context with the gateway and the key; see berth context list')
    .option('--no-wait', 'do not wait for the tasks that the command starts')
    .option('--timeout <duration>', 'longest time to wait for tasks, such as 30s, 5m or 1h')
    .showSuggestionAfterError()
    .addHelpText('after', mainHelp)
  for (const [noun, own] of byNoun(operations))
    program.addCommand(nounCommand(noun, words.includes(noun) ? own : [], options))
  addOwnCommands(program, surroundings, words)
  return program
}

const mainHelp = `
Examples:
  berth login https://panel.example.com
  berth guest create web1 --image debian-12 --ram 512m
  berth guest list -o json
  berth run web1 -- uptime

Help:
  berth help guest          lists the commands for guests
  berth help guest create   shows the flags of a command

Exit codes:
${Object.entries(exitCodeTexts)
  .map(([code, text]) => `  ${code.padEnd(4)}${text}`)
  .join('\n')}`

function byNoun(operations: readonly Operation[]): Map<string, Operation[]> {
  const nouns = new Map<string, Operation[]>()
  for (const operation of operations) nouns.set(operation.noun, [...(nouns.get(operation.noun) ?? []), operation])
  return nouns
}

function nounCommand(noun: string, operations: readonly Operation[], options: ProgramOptions): BerthCommand {
  const command = new BerthCommand(noun)
    .description(describeNouns[noun] ?? `commands for ${noun.replaceAll('-', ' ')}`)
    .helpGroup('Objects, each with commands of its own, such as berth guest list:')
  const verbs = new Set(operations.map(({ verb }) => verb))
  for (const operation of operations) {
    const added = operationCommand(operation, options)
    for (const alias of aliasesOf(operation.verb, verbs)) added.alias(alias)
    command.addCommand(added, { hidden: operation.isHidden ?? false })
  }
  return command
}

/** Returns short names of a command, which are usual in other programs. */
function aliasesOf(verb: string, verbs: ReadonlySet<string>): string[] {
  if (verb === 'list') return ['ls']
  if (verb === 'get') return ['show']
  return verb === 'delete' || (verb === 'remove' && !verbs.has('delete')) ? ['rm'] : []
}

function operationCommand(operation: Operation, { surroundings, words }: ProgramOptions): BerthCommand {
  const { verb, summary, flags, hasBody, example, globalFlags = ['context'] } = operation
  const command = new BerthCommand(verb).description(`${summary}.`).summary(firstSentence(summary))
  command.globalFlags = globalFlags
  command.sections = objectSections(flags)
  addArguments(command, operation, words)
  for (const flag of requiredFirst(flags)) addFlag(command, flag)
  if (hasBody) command.option('--data <json>', 'fields of the body as a JSON object; @FILE reads a file, @- the input')
  if (operation.answer === 'file')
    command.option('-f, --file <file>', 'file for the result; - or without it: the standard output')
  const syntax = valueHelp(flags)
  command.addHelpText('after', `${syntax && `\n${syntax}`}\nExample:\n  berth ${example}`)
  reportUsage(command, { example, missing: () => missingParts(operation, inputOf(operation, command), surroundings) })
  return command.action(async () => {
    const { runOperation } = await import('./commands/run-operation.js')
    const input = inputOf(operation, command)
    const { file } = command.opts<{ file?: string }>()
    await runOperation({
      operation,
      input,
      ...(file !== undefined && { file }),
      options: command.optsWithGlobals<GlobalOptions>(),
      surroundings,
    })
  })
}

/** Adds the arguments. The one for a field of the body can be omitted if `--data` contains this field. */
function addArguments(command: BerthCommand, { arguments: args }: Operation, words: readonly string[]): void {
  const hasData = words.some((word) => /^--data(=|$)/.test(word))
  for (const { label, place, text } of args)
    command.argument(place === 'body' && hasData ? `[${label}]` : `<${label}>`, text)
}

const requiredFirst = (flags: readonly Flag[]): readonly Flag[] =>
  [...flags].sort((a, b) => Number(b.isRequired ?? false) - Number(a.isRequired ?? false))

const firstSentence = (text: string): string => /^.*?(?=\. |$)/.exec(text)?.[0] ?? text

function addFlag(command: BerthCommand, flag: Flag): void {
  const { name, type } = flag
  const description = flagDescription(flag)
  if (type === 'switch') {
    command.option(`--${name}`, description)
    return void command.addOption(new Option(`--no-${name}`).hideHelp())
  }
  const option = new Option(`--${name} <${placeholderOf(flag)}>`, description)
  if (flag.text.startsWith('Deprecated')) option.hideHelp()
  command.addOption(option.argParser<string[]>((value, earlier = []) => [...earlier, value]))
}

function inputOf({ flags, arguments: args }: Operation, command: BerthCommand): Input {
  const given = command.opts<Readonly<Record<string, readonly string[] | boolean | undefined>>>()
  const values = flags.flatMap(({ name }): [string, readonly string[] | boolean][] => {
    const value = given[camelCase(name)]
    return value === undefined ? [] : [[name, value]]
  })
  const body = given['data'] as string | undefined
  const texts = args.map((_, index) => command.args[index]).filter((text) => text !== undefined)
  return { arguments: texts, flags: new Map(values), ...(body !== undefined && { body }) }
}

/** Returns the name under which commander stores an option. */
const camelCase = (name: string): string => name.replace(/-(.)/g, (_, letter: string) => letter.toUpperCase())
