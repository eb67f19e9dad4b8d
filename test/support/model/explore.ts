export interface Model<State> {
  readonly initial: State
  /** Lists the steps that are possible in a state. Each state must be plain data. */
  readonly next: (state: State) => Iterable<readonly [step: string, after: State]>
  /** Returns what is wrong in a state. "": nothing. */
  readonly check: (state: State) => string
}

export interface Exploration {
  readonly states: number
  readonly transitions: number
  /** The problem of a wrong state, and the shortest sequence of steps to it. Absent: no reachable state is wrong. */
  readonly violation?: { readonly problem: string; readonly steps: readonly string[] }
}

interface Visit {
  readonly from: string | undefined
  readonly step: string
}

/** Visits all reachable states, nearest first. @throws {Error} if there are more than `maxStates` */
export function explore<State>({ initial, next, check }: Model<State>, maxStates: number): Exploration {
  const first = JSON.stringify(initial)
  const visited = new Map<string, Visit>([[first, { from: undefined, step: '' }]])
  const queue = [first]
  let transitions = 0
  for (let at = 0; at < queue.length; at++) {
    const key = queue[at]!
    const state = JSON.parse(key) as State
    const problem = check(state)
    if (problem !== '')
      return { states: visited.size, transitions, violation: { problem, steps: stepsTo(visited, key) } }
    for (const [step, after] of next(state)) {
      transitions++
      const text = JSON.stringify(after)
      if (visited.has(text)) continue
      visited.set(text, { from: key, step })
      queue.push(text)
    }
    if (visited.size > maxStates) throw new Error(`the model has more than ${maxStates} states`)
  }
  return { states: visited.size, transitions }
}

function stepsTo(visited: ReadonlyMap<string, Visit>, key: string): string[] {
  const steps: string[] = []
  for (let at = visited.get(key); at?.from !== undefined; at = visited.get(at.from)) steps.unshift(at.step)
  return steps
}
