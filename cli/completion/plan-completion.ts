import type { NamedKind } from '../catalog/operation.js'

/** A flag, and what can follow it. */
export interface Choice {
  /** With its leading dashes. */
  readonly long: string
  readonly short?: string
  /** True if the next word is the value of the flag. */
  readonly hasValue?: true
  readonly values?: readonly string[]
  readonly names?: NamedKind
}

/** A command with its flags and subcommands. `arguments`: kind of object that each argument names; null: no object. */
export interface Level {
  readonly flags: readonly Choice[]
  readonly arguments?: readonly (NamedKind | null)[]
  readonly commands?: Readonly<Record<string, Level>>
}

export interface Completion {
  readonly texts: readonly string[]
  /** Kind of the objects whose names can complete the word; undefined: no names. */
  readonly names: NamedKind | undefined
  /** Value of the flag `--context`. */
  readonly context: string | undefined
}

/** @param words all words after `berth`; the last one is incomplete */
export function planCompletion(program: Level, words: readonly string[]): Completion {
  const { level, flag, position, context } = walk(program, words.slice(0, -1))
  if (flag) return { texts: flag.values ?? [], names: flag.names, context }
  if (words.at(-1)?.startsWith('-')) return { texts: flagsOf(level, program), names: undefined, context }
  if (level.commands && position === 0) return { texts: Object.keys(level.commands), names: undefined, context }
  return { texts: [], names: level.arguments?.[position] ?? undefined, context }
}

const flagsOf = (level: Level, program: Level): string[] => [
  ...new Set([...level.flags, ...program.flags].map(({ long }) => long)),
]

interface Place {
  readonly level: Level
  /** Flag whose value is the next word. */
  readonly flag: Choice | undefined
  /** Number of arguments before the next word. */
  readonly position: number
  readonly context: string | undefined
}

function walk(program: Level, words: readonly string[]): Place {
  let place: Place = { level: program, flag: undefined, position: 0, context: undefined }
  for (const word of words) place = step(program, place, word)
  return place
}

function step(program: Level, place: Place, word: string): Place {
  const { level, flag, position } = place
  if (flag) return { ...place, flag: undefined, ...(flag.long === '--context' && { context: word }) }
  if (word.startsWith('-')) {
    const found = [...level.flags, ...program.flags].find(({ long, short }) => word === long || word === short)
    return { ...place, flag: found?.hasValue && found }
  }
  const { commands = {} } = level
  if (position === 0 && Object.hasOwn(commands, word)) return { ...place, level: commands[word]! }
  return { ...place, position: position + 1 }
}
