import type { Command } from 'commander'
import { usageError, type CliError } from '../errors.js'
import { distanceOf } from '../names/plan-match.js'
import { nounSynonyms, verbSynonyms } from './synonyms.js'

/** Returns the error for an unknown command. @param parent the program, or the noun before the word */
export function unknownCommand(word: string, parent: Command): CliError {
  const path = pathOf(parent)
  const found = suggest(word, parent)
  const hint = found === undefined ? `see ${path} --help` : `did you mean ${found}?`
  return usageError(`unknown command: ${path} ${word}`, hint)
}

/** Returns a command that the user may have meant. */
function suggest(word: string, parent: Command): string | undefined {
  const text = word.toLowerCase()
  const names = parent
    .createHelp()
    .visibleCommands(parent)
    .map((command) => command.name())
  const inside = find(text, names, parent.parent ? verbSynonyms : nounSynonyms)
  if (inside !== undefined) return `${pathOf(parent)} ${inside}`
  // `berth guest ssh web1` means `berth ssh web1`.
  const outside = parent.parent?.commands.find((command) => command.name() === text)
  return outside && `${pathOf(outside)}`
}

function find(text: string, names: readonly string[], synonyms: Readonly<Record<string, string>>): string | undefined {
  const known = (Object.hasOwn(synonyms, text) ? synonyms[text]! : '').split(', ')
  return known.find((name) => isName(name, names)) ?? similar(text, names)
}

/** A synonym of a noun can be a command of two words, such as `guest create`. */
const isName = (name: string, names: readonly string[]): boolean => names.includes(name.split(' ')[0]!)

function similar(text: string, names: readonly string[]): string | undefined {
  const most = Math.max(1, Math.floor(text.length / 3))
  const [best] = names
    .map((name) => ({ name, distance: name.startsWith(text) && text.length > 2 ? 0 : distanceOf(text, name) }))
    .filter(({ distance }) => distance <= most)
    .sort((a, b) => a.distance - b.distance)
  return best?.name
}

const pathOf = (command: Command): string =>
  command.parent ? `${pathOf(command.parent)} ${command.name()}` : command.name()
