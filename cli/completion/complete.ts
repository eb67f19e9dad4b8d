import type { NamedKind } from '../catalog/operation.js'
import type { Surroundings } from '../surroundings.js'
import { loadTree } from './load-tree.js'
import { planCompletion } from './plan-completion.js'

/**
 * Prints the words that can replace the last word. Prints no errors, because they would disturb the command line.
 * @param words all words after `berth`; the last one is incomplete
 */
export async function runComplete(words: readonly string[], surroundings: Surroundings): Promise<void> {
  const { texts, names, context } = planCompletion(loadTree(), words)
  const found = names === undefined ? [] : await namesOf(names, surroundings, context)
  const start = words.at(-1) ?? ''
  const all = [...texts, ...found].filter((text) => text.startsWith(start))
  surroundings.writeOut(all.map((text) => `${text}\n`).join(''))
}

/** Returns the names of guests or hosts that are safe to insert into a command line. */
async function namesOf(names: NamedKind, surroundings: Surroundings, context: string | undefined): Promise<string[]> {
  try {
    const { openSession } = await import('../session.js') // most completions need no request
    const session = await openSession(surroundings, { wait: true, ...(context !== undefined && { context }) })
    const candidates = await session.names.list(names === 'host' ? 'host' : 'guest')
    return candidates.map(({ name }) => name).filter((name) => /^[\w.-]+$/.test(name))
  } catch {
    return []
  }
}
