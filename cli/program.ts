import { Command, Option } from 'commander'
import { version } from '../shared/version.js'
import { describeNouns } from './catalog/nouns.js'
import type { Flag, Operation } from './catalog/operation.js'
import type { Input } from './input/plan-request.js'
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

export function createProgram(options: ProgramOptions): Command {
  const { operations, surroundings, words } = options
  const program = newCommand('berth')
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
  addOwnCommands(program, surroundings)
  return program
}

const mainHelp = `
Examples:
  berth login https://panel.example.com
  berth guest create web1 --image debian-12 --ram 512m
  berth guest list -o json
  berth run web1 -- uptime
  berth guest create --help

Exit codes: 0 success, 1 failed, 2 wrong usage, 3 not found, 4 not allowed, 5 conflict, 6 unreachable or timed out`

/** Creates a command that throws an error instead of ending the process. */
function newCommand(name: string): Command {
  return new Command(name)
    .exitOverride()
    .helpCommand(false)
    .configureHelp({ showGlobalOptions: true, minWidthToWrap: 20, optionTerm })
}

/** Returns the text of a flag for the help. A switch is shown with its opposite, as in `--[no-]start`. */
function optionTerm({ flags, long, negate }: Option): string {
  const isSwitch =
    !negate &&
    !flags.includes('<') &&
    !/^--(version|help|quiet|follow|serial|offline|yes|dry-run|prune|with-key|recursive|read-only)$/.test(long ?? '')
  return isSwitch ? flags.replace('--', '--[no-]') : flags
}

function byNoun(operations: readonly Operation[]): Map<string, Operation[]> {
  const nouns = new Map<string, Operation[]>()
  for (const operation of operations) nouns.set(operation.noun, [...(nouns.get(operation.noun) ?? []), operation])
  return nouns
}

function nounCommand(noun: string, operations: readonly Operation[], options: ProgramOptions): Command {
  const command = newCommand(noun).description(describeNouns[noun] ?? `commands for ${noun.replaceAll('-', ' ')}`)
  for (const operation of operations) command.addCommand(operationCommand(operation, options))
  return command
}

function operationCommand(operation: Operation, { surroundings }: ProgramOptions): Command {
  const { verb, summary, flags, hasBody, example } = operation
  const command = newCommand(verb).description(summary).summary(firstSentence(summary))
  for (const { label, place } of operation.arguments) command.argument(place === 'body' ? `[${label}]` : `<${label}>`)
  for (const flag of flags) addFlag(command, flag)
  if (hasBody) command.option('--data <json>', 'fields of the body as a JSON object; @FILE reads a file, @- the input')
  if (operation.answer === 'file')
    command.option('-f, --file <file>', 'file for the result; - or without it: the standard output')
  command.addHelpText('after', `${valueHelp(flags)}\nExample:\n  berth ${example}`)
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

/** Returns a line about the syntax of values, if the command has flags with such values. */
function valueHelp(flags: readonly Flag[]): string {
  const lines = [
    flags.some(({ type }) => type === 'size') ? 'Sizes: 512m, 1.5g, or a number in the unit of the flag.' : '',
    flags.some(({ type }) => type === 'text') ? 'For a text, @FILE reads it from a file.' : '',
  ].filter(Boolean)
  return lines.length === 0 ? '' : `\n${lines.join(' ')}\n`
}

const firstSentence = (text: string): string => /^.*?(?=\. |$)/.exec(text)?.[0] ?? text

function addFlag(command: Command, flag: Flag): void {
  const { name, type, text, isRequired } = flag
  const description = [isRequired ? 'Required.' : '', text, valuesText(flag)].filter(Boolean).join(' ')
  if (type === 'switch') {
    command.option(`--${name}`, description)
    return void command.addOption(new Option(`--no-${name}`).hideHelp())
  }
  const option = new Option(`--${name} <${placeholderOf(flag)}>`, description)
  command.addOption(option.argParser<string[]>((value, earlier = []) => [...earlier, value]))
}

function valuesText({ values, isList, type, text }: Flag): string {
  const allowed = values && !values.every((value) => text.includes(value)) ? `One of ${values.join(', ')}.` : ''
  const list = isList ? `Can be repeated${type === 'object' ? '' : ' or contain commas'}; '' is an empty list.` : ''
  return [allowed, list].filter(Boolean).join(' ')
}

function placeholderOf({ type, names, values }: Flag): string {
  if (names) return names.replace(/-.*/, '')
  if (values) return 'word'
  return { text: 'text', whole: 'number', number: 'number', size: 'size', object: 'key=value,…', switch: '' }[type]
}

function inputOf({ flags, arguments: args }: Operation, command: Command): Input {
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
