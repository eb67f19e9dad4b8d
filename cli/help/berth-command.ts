import { Command, Help, type HelpContext, type Option } from 'commander'
import type { GlobalFlag } from '../catalog/operation.js'
import { reportUsage } from '../input/usage.js'
import { unknownCommand } from './unknown-command.js'

/** A heading with terms and their texts, which the help and the manual page show below the flags. */
export interface HelpSection {
  readonly heading: string
  readonly rows: readonly (readonly [term: string, text: string])[]
  readonly example: string
}

/** A command that throws errors instead of ending the process, and suggests commands for unknown ones. */
export class BerthCommand extends Command {
  /** Global flags that have a meaning for this command. The help shows only these. */
  globalFlags: readonly GlobalFlag[] = []
  sections: readonly HelpSection[] = []

  constructor(name?: string) {
    super(name)
    reportUsage(this)
      .configureOutput({ outputError: () => undefined })
      .helpCommand(false)
    this.on('command:*', ([word]: readonly string[]) => this.#refuse(word))
  }

  override createCommand(name?: string): BerthCommand {
    return new BerthCommand(name)
  }

  override createHelp(): BerthHelp {
    return Object.assign(new BerthHelp(), this.configureHelp())
  }

  /** @throws {CliError} `usage` if the help of an unknown command is requested */
  override outputHelp(context?: HelpContext | ((text: string) => string)): void {
    if (this.commands.length > 0) this.#refuse(this.args[0])
    super.outputHelp(context as HelpContext)
  }

  #refuse(word: string | undefined): void {
    if (word !== undefined && !word.startsWith('-')) throw unknownCommand(word, this)
  }
}

export class BerthHelp extends Help {
  override readonly showGlobalOptions = true
  override readonly minWidthToWrap = 20

  /** Returns the text of a flag. A switch is shown with its opposite, as in `--[no-]start`. */
  override optionTerm({ flags, long, negate }: Option): string {
    const isSwitch =
      !negate &&
      !flags.includes('<') &&
      !/^--(version|help|quiet|follow|serial|offline|yes|dry-run|prune|with-key|recursive|read-only)$/.test(long ?? '')
    return isSwitch ? flags.replace('--', '--[no-]') : flags
  }

  override visibleGlobalOptions(command: Command): Option[] {
    const { globalFlags = [] } = command as Partial<BerthCommand>
    return rootOf(command).options.filter(
      (option) => command.parent !== null && (globalFlags as readonly string[]).includes(option.attributeName()),
    )
  }

  /** Returns a command of a list: with its arguments, but in the list of all commands without them. */
  override subcommandTerm(command: Command): string {
    const args = command.parent?.parent ? command.registeredArguments : []
    return [
      command.name(),
      ...args.map((argument) => (argument.required ? `<${argument.name()}>` : `[${argument.name()}]`)),
    ].join(' ')
  }

  /** Returns the first sentence of a command's description, without an example. */
  override subcommandDescription(command: Command): string {
    return super
      .subcommandDescription(command)
      .replace(/\. .*$/s, '')
      .replace(/(, such as)?: berth .*$/, '')
      .replace(/\.$/, '')
  }

  override formatHelp(command: Command, helper: Help): string {
    const { sections = [] } = command as Partial<BerthCommand>
    return [super.formatHelp(command, helper), ...sections.map((section) => formatSection(section, helper))].join('\n')
  }
}

function formatSection({ heading, rows, example }: HelpSection, helper: Help): string {
  const width = Math.max(...rows.map(([term]) => term.length))
  const items = rows.map(([term, text]) => helper.formatItem(term, width, text, helper))
  return [heading, ...items, `  Example: ${example}`, ''].join('\n')
}

function rootOf(command: Command): Command {
  return command.parent ? rootOf(command.parent) : command
}
