import { usageError } from '../errors.js'

/* This module checks programs with their arguments, which `berth run` and `berth ssh` run in a guest. */

/** Flags of these commands that have a value, which is not the guest or the program. */
const valued = /^(-o|--output|--columns|--jq|--context|--timeout|--user)$/
const isFlag = (word: string): boolean => word.length > 1 && word.startsWith('-')

/**
 * Refuses flags of a program without `--` before the program. Otherwise, `berth` would take them as its own flags.
 * @param words the command line without the name of this program
 * @throws {CliError} `usage`
 */
export function checkRemoteCommand(words: readonly string[], name: 'run' | 'ssh'): void {
  const start = programStart(words, commandIndex(words, name) + 1)
  if (start === undefined || !words.slice(start).some(isFlag)) return
  const written = [...words.slice(0, start), '--', ...words.slice(start)].map(quoted).join(' ')
  throw usageError(
    'the flags of the program must follow --',
    `write: berth ${written}\nflags of berth itself must precede the program`,
  )
}

/** Returns the index of the command. A flag before it can have the same word as its value. */
function commandIndex(words: readonly string[], name: string): number {
  for (let index = 0; index < words.length; index++) {
    if (valued.test(words[index]!)) index++
    else if (words[index] === name) return index
  }
  return -1
}

/** Returns the index of the program; undefined: there is no program, or `--` precedes it. */
function programStart(words: readonly string[], from: number): number | undefined {
  let hasGuest = false
  for (let index = from; index < words.length; index++) {
    const word = words[index]!
    if (word === '--') return undefined
    if (valued.test(word)) index++
    if (isFlag(word)) continue
    if (hasGuest) return index
    hasGuest = true
  }
  return undefined
}

/** Quotes a word for a shell if this is necessary. */
const quoted = (word: string): string => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`)
