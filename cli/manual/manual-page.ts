import type { Command, Option } from 'commander'
import type { Operation } from '../catalog/operation.js'
import { exitCodeTexts } from '../errors.js'
import type { BerthCommand, HelpSection } from '../help/berth-command.js'
import { createProgram } from '../program.js'
import type { Surroundings } from '../surroundings.js'
import { bold, entry, escapeRoff, proseRoff, section } from './roff.js'

/** Name of the manual page that the build writes into `dist/cli`. */
export const manualFile = 'berth.1'

/** Returns the manual page berth(1). The page is derived from the commands, so it is never out of date. */
export function manualPage(operations: readonly Operation[]): string {
  const words = operations.map(({ noun }) => noun)
  const program = createProgram({ operations, surroundings: {} as Surroundings, words })
  const sections = [
    section('NAME', 'berth \\- command line of Berth'),
    section('SYNOPSIS', `${bold('berth')} \\fINOUN VERB\\fP [\\fIARGUMENTS\\fP] [\\fB\\-\\-flags\\fP]`),
    section('DESCRIPTION', proseRoff(program.description())),
    section('OPTIONS', ...optionsOf(program)),
    section('COMMANDS', ...ownCommands(program)),
    ...nounsOf(program),
    section('EXIT STATUS', ...Object.entries(exitCodeTexts).map(([code, text]) => entry(code, text))),
    section('ENVIRONMENT', ...Object.entries(variables).map(([name, text]) => entry(bold(name), text))),
    section('FILES', ...Object.entries(files).map(([path, text]) => entry(`\\fI${escapeRoff(path)}\\fP`, text))),
  ]
  return `.TH BERTH 1 "" Berth "Commands of Berth"\n.nh\n.ad l\n${sections.join('\n')}\n`
}

const variables: Readonly<Record<string, string>> = {
  BERTH_CONTEXT: 'name of the context, in place of the current one',
  BERTH_URL: 'URL of a gateway, in place of a context; requires `BERTH_KEY`',
  BERTH_KEY: 'API key, in place of the one of the context',
  BERTH_CONFIG: 'path of the file with the contexts',
  NO_COLOR: 'turns colors off',
}

const files: Readonly<Record<string, string>> = {
  '~/.config/berth/config.yaml': 'contexts with their keys',
  '~/.config/berth/known_hosts': 'SSH host keys of containers, as `berth ssh` has read them through the gateway',
  '/etc/berth/admin.key': 'key with which root needs no login on the machine of the gateway',
}

/** Returns the commands that have no subcommands. */
function ownCommands(program: Command): string[] {
  const commands = program.createHelp().visibleCommands(program)
  return commands.filter((command) => command.commands.length === 0).map((command) => commandEntry(command, 'berth'))
}

/** Returns a section for each noun with its commands. */
function nounsOf(program: Command): string[] {
  const nouns = program.commands.filter(({ commands }) => commands.length > 0)
  return nouns.map((noun) =>
    [
      `.SS ${escapeRoff(noun.name())}`,
      `${proseRoff(sentence(noun.description()))}`,
      ...noun
        .createHelp()
        .visibleCommands(noun)
        .map((verb) => commandEntry(verb, `berth ${noun.name()}`)),
    ].join('\n'),
  )
}

const sentence = (text: string): string => `${text.charAt(0).toUpperCase()}${text.slice(1)}`

function commandEntry(command: Command, parent: string): string {
  const values = command.registeredArguments.map((argument) => {
    const name = `\\fI${escapeRoff(argument.name())}\\fP${argument.variadic ? '...' : ''}`
    return argument.required ? name : `[${name}]`
  })
  const term = [bold(`${parent} ${command.name()}`), ...values].join(' ')
  const { sections = [] } = command as Partial<BerthCommand>
  return entry(term, command.description(), [...optionsOf(command), ...sections.map(sectionEntry)])
}

function optionsOf(command: Command): string[] {
  const help = command.createHelp()
  const own = help.visibleOptions(command).filter(({ long }: Option) => long !== '--help')
  return own.map((option) => entry(bold(help.optionTerm(option)), help.optionDescription(option)))
}

function sectionEntry({ heading, rows, example }: HelpSection): string {
  const items = rows.map(([term, text]) => entry(bold(term), text))
  return entry(escapeRoff(heading), `Example: \`${example}\``, items)
}
