import type { Named, Operation } from '../catalog/operation.js'

/** A command with its options and subcommands. */
export interface Level {
  readonly options: readonly string[]
  readonly commands: ReadonlyMap<string, Level>
}

export interface Completion {
  readonly texts: readonly string[]
  /** Kind of the objects whose names can complete the word; undefined: no names. */
  readonly names: Named | undefined
}

/** @param words all words after `berth`; the last one is incomplete */
export function planCompletion(program: Level, operations: readonly Operation[], words: readonly string[]): Completion {
  const path = words.slice(0, -1).filter((word, index) => !word.startsWith('-') && !isValue(words, index))
  let level = program
  let depth = 0
  for (; depth < path.length; depth++) {
    const next = level.commands.get(path[depth]!)
    if (next === undefined) break
    level = next
  }
  const operation = operations.find(({ noun, verb }) => depth === 2 && noun === path[0] && verb === path[1])
  const flag = operation?.flags.find(({ name }) => `--${name}` === words.at(-2))
  if (flag && flag.type !== 'switch') return { texts: flag.values ?? [], names: flag.names }
  if (words.at(-1)?.startsWith('-')) return { texts: [...level.options, ...program.options], names: undefined }
  if (level.commands.size > 0) return { texts: [...level.commands.keys()], names: undefined }
  return { texts: [], names: namesAt(operation, path, depth) }
}

/** True if the word is the value of a global option before it, such as `json` in `--output json`. */
function isValue(words: readonly string[], index: number): boolean {
  return /^(-o|--(output|context|columns|jq|timeout))$/.test(words[index - 1] ?? '')
}

/** Arguments of commands that are not operations. */
const ownArguments: Readonly<Record<string, readonly Named[]>> = {
  ssh: ['guest'],
  console: ['guest'],
  run: ['guest'],
  logs: ['guest'],
  vnc: ['guest'],
  why: ['guest'],
  migrate: ['guest', 'host'],
  drain: ['host'],
}

function namesAt(operation: Operation | undefined, path: readonly string[], depth: number): Named | undefined {
  if (operation) return operation.arguments[path.length - depth]?.names
  return depth === 1 ? ownArguments[path[0]!]?.[path.length - 1] : undefined
}
