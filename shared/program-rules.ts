import { invalidField } from './errors.js'

/* Rules for programs that run in containers without a terminal. The gateway and the agent check these rules. */

export const maxProgramWords = 256
/** Maximum size in UTF-8 of the program and its arguments, including one separating byte after each of them. */
export const maxProgramBytes = 8 * 1024

/**
 * Checks a program and its arguments.
 * @returns `words`
 * @throws {BerthError} `invalid_field`
 */
export function checkProgram(words: readonly string[]): readonly string[] {
  const problem = findProblem(words)
  if (problem !== undefined) throw invalidField('command', `command: ${problem}`)
  return words
}

function findProblem(words: readonly string[]): string | undefined {
  if (!words[0]) return 'must begin with the name of a program'
  if (words.length > maxProgramWords) return `must have at most ${maxProgramWords} words`
  if (words.some((word) => word.includes('\0'))) return 'must not contain NUL characters'
  if (words.some((word) => Buffer.from(word).toString() !== word)) return 'must be valid Unicode'
  const bytes = words.reduce((sum, word) => sum + Buffer.byteLength(word) + 1, 0)
  return bytes > maxProgramBytes ? `must have at most ${maxProgramBytes} bytes` : undefined
}
