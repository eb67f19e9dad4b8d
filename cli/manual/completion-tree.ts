import type { Command, Option } from 'commander'
import type { NamedKind, Operation } from '../catalog/operation.js'
import { outputForms } from '../output/print.js'
import { createProgram } from '../program.js'
import type { Surroundings } from '../surroundings.js'
import type { Choice, Level } from '../completion/plan-completion.js'

/* The build derives the completion's data from the commands, because creating all commands takes long. */

export function completionTree(operations: readonly Operation[]): Level {
  const words = operations.map(({ noun }) => noun)
  return levelOf(createProgram({ operations, surroundings: {} as Surroundings, words }), operations)
}

function levelOf(command: Command, operations: readonly Operation[]): Level {
  const operation = operations.find(({ noun, verb }) => noun === command.parent?.name() && verb === command.name())
  const names = operation?.arguments.map((argument) => argument.names ?? null) ?? ownArguments[command.name()]
  const flags = command.options.filter(({ hidden, long }) => !hidden && long)
  const commands = command.createHelp().visibleCommands(command)
  return {
    flags: flags.map((option) => choiceOf(option, operation)),
    ...(names && { arguments: names }),
    ...(commands.length > 0 && {
      commands: Object.fromEntries(commands.map((one) => [one.name(), levelOf(one, operations)])),
    }),
  }
}

/** Arguments of commands that are not operations. */
const ownArguments: Readonly<Record<string, readonly NamedKind[]>> = {
  ssh: ['guest'],
  console: ['guest'],
  run: ['guest'],
  logs: ['guest'],
  vnc: ['guest'],
  why: ['guest'],
  migrate: ['guest', 'host'],
  drain: ['host'],
}

function choiceOf({ long, short, required, optional }: Option, operation: Operation | undefined): Choice {
  const flag = operation?.flags.find(({ name }) => `--${name}` === long)
  const values = long === '--output' ? outputForms : flag?.values
  return {
    long: long!,
    ...(short && { short }),
    ...((required || optional) && { hasValue: true }),
    ...(values && { values }),
    ...(flag?.names && { names: flag.names }),
  }
}
