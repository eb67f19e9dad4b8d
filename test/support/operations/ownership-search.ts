import { evacuationStepsOf } from './ownership-evacuations.js'
import { incidentStepsOf } from './ownership-incidents.js'
import {
  checkWorld,
  crash,
  isSettled,
  stepsOf,
  Violation,
  type Limits,
  type Rules,
  type Step,
  type World,
} from './ownership-model.js'

/** The models of all guests. The guests are on the same hosts, and affect each other only when a host crashes. */
type Worlds = readonly World[]

interface SearchEntry {
  readonly worlds: Worlds
  /** Key of the state from which the search first reached this state by the step `step`. */
  readonly from: string
  readonly step: string
  /** Keys of the states from which one step leads to this state. Only steps with `isProgress` count. */
  readonly before: string[]
}

export interface SearchResult {
  readonly states: number
  /** The first violation, with the steps that lead to it. Undefined if the search found no violation. */
  readonly violation: string | undefined
}

/**
 * Visits every state that the guests can reach. Finds guests that run twice, and copies that start without the newest
 * disk. Also finds states from which some guest can never run again.
 */
export function search(first: Worlds, rules: Rules, limits: Limits): SearchResult {
  const visited = new Map<string, SearchEntry>()
  const queue: string[] = []
  const visit = (worlds: Worlds, from: string, { name, isProgress }: { name: string; isProgress: boolean }): void => {
    const key = keyOf(worlds)
    let known = visited.get(key)
    if (!known) {
      visited.set(key, (known = { worlds, from, step: name, before: [] }))
      queue.push(key)
    }
    if (isProgress && from !== key) known.before.push(from)
  }
  const failed = (key: string, what: string): SearchResult => ({
    states: visited.size,
    violation: `${what}: ${pathTo(visited, key)}`,
  })
  visit(first, '', { name: 'begin', isProgress: false })
  for (let at = 0; at < queue.length; at++) {
    const key = queue[at]!
    const { worlds } = visited.get(key)!
    try {
      worlds.forEach(checkWorld)
      for (const step of nextOf(worlds, rules, limits)) visit(step.worlds, key, step)
    } catch (error) {
      if (error instanceof Violation) return failed(key, error.message)
      throw error
    }
  }
  const stuck = findStuck(visited)
  return stuck === undefined
    ? { states: visited.size, violation: undefined }
    : failed(stuck, 'a guest can never run again, or runs twice for ever')
}

function* nextOf(worlds: Worlds, rules: Rules, limits: Limits) {
  for (const [index, world] of worlds.entries())
    for (const { next, ...step } of allStepsOf(world, rules, limits))
      yield { ...step, name: `${step.name} (guest ${index})`, worlds: worlds.with(index, next) }
  for (const host of worlds[0]!.hosts.keys())
    yield { name: `crash of ${host}`, isProgress: false, worlds: worlds.map((world) => crash(world, host)) }
}

function allStepsOf(world: World, rules: Rules, limits: Limits): Step[] {
  return [
    ...stepsOf(world, rules, limits),
    ...incidentStepsOf(world, rules, limits),
    ...evacuationStepsOf(world, rules, limits),
  ]
}

function keyOf(worlds: Worlds): string {
  return JSON.stringify(worlds)
}

/** Finds a state after which no sequence of steps lets all guests run where they belong. */
function findStuck(visited: ReadonlyMap<string, SearchEntry>): string | undefined {
  const good = new Set([...visited].filter(([, { worlds }]) => worlds.every(isSettled)).map(([key]) => key))
  for (const key of good) for (const before of visited.get(key)!.before) good.add(before)
  return [...visited.keys()].find((key) => !good.has(key))
}

function pathTo(visited: ReadonlyMap<string, SearchEntry>, key: string): string {
  const steps: string[] = []
  for (let at = visited.get(key); at && at.from !== ''; at = visited.get(at.from)) steps.unshift(at.step)
  return steps.join(', ')
}
