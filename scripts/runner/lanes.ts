import type { Chain, JobKind } from './jobs.js'

export interface Lanes {
  /** Number of lanes, which run side by side. A chain of jobs (see `Chain`) occupies one lane or several. */
  readonly count: number
  /** Number of running chains of the kind `compute`. When it is reached, chains of the kind `host` begin first. */
  readonly computing: number
}

/** Runs chains in lanes. While the next chain needs more lanes than are free, no later chain overtakes it. */
export async function runInLanes(
  chains: readonly Chain[],
  lanes: Lanes,
  run: (chain: Chain) => Promise<void>,
): Promise<void> {
  const waiting = [...chains]
  const running = new Map<Chain, Promise<void>>()
  for (;;) {
    for (let next = takeNext(waiting, [...running.keys()], lanes); next;) {
      const chain = next
      running.set(
        chain,
        run(chain).finally(() => running.delete(chain)),
      )
      next = takeNext(waiting, [...running.keys()], lanes)
    }
    if (running.size === 0) return
    await Promise.race(running.values())
  }
}

/** Removes the next chain from `waiting` if enough lanes are free. @returns the chain; undefined if it must wait */
export function takeNext(waiting: Chain[], running: readonly Chain[], lanes: Lanes): Chain | undefined {
  const free = lanes.count - running.reduce((sum, chain) => sum + chain.lanes, 0)
  const computing = running.filter(({ kind }) => kind === 'compute').length
  const preferred: JobKind = computing < lanes.computing ? 'compute' : 'host'
  const next = waiting.find((chain) => chain.kind === preferred) ?? waiting[0]
  if (!next || (next.lanes > free && running.length > 0)) return undefined
  waiting.splice(waiting.indexOf(next), 1)
  return next
}
