import type { Command } from 'commander'
import type { Named, Operation } from '../catalog/operation.js'
import type { GlobalOptions } from '../session.js'
import type { Surroundings } from '../surroundings.js'
import { planCompletion, type Level } from './plan-complete.js'

export interface CompleteRun {
  /** All words after `berth`; the last one is incomplete. */
  readonly words: readonly string[]
  readonly operations: readonly Operation[]
  readonly program: Command
  readonly options: GlobalOptions
  readonly surroundings: Surroundings
}

/** Prints the words that can replace the last word. Prints no errors, because they would disturb the command line. */
export async function runComplete({ words, operations, program, options, surroundings }: CompleteRun): Promise<void> {
  const { texts, names } = planCompletion(levelOf(program), operations, words)
  const found = names === undefined ? [] : await namesOf(names, surroundings, options)
  const start = words.at(-1) ?? ''
  const all = [...texts, ...found].filter((text) => text.startsWith(start))
  surroundings.writeOut(all.map((text) => `${text}\n`).join(''))
}

function levelOf(command: Command): Level {
  const own = command.commands.filter((one) => one.name() !== 'complete')
  return {
    options: command.options.filter(({ hidden }) => !hidden).flatMap(({ long }) => long ?? []),
    commands: new Map(own.map((one) => [one.name(), levelOf(one)])),
  }
}

/** Returns the names of guests or hosts that are safe to insert into a command line. */
async function namesOf(names: Named, surroundings: Surroundings, options: GlobalOptions): Promise<string[]> {
  try {
    const { openSession } = await import('../session.js') // most completions need no request
    const session = await openSession(surroundings, options)
    const candidates = await session.names.list(names === 'host' ? 'host' : 'guest')
    return candidates.map(({ name }) => name).filter((name) => /^[\w.-]+$/.test(name))
  } catch {
    return []
  }
}
