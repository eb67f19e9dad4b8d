import { existsSync } from 'node:fs'
import type { RunPaths } from './paths.js'
import { parseFileSystems } from './parse-file-systems.js'
import { withGuestAgent } from './qmp/guest-agent.js'

interface Told {
  /** Undefined: it has no agent, or none that says. */
  bytes?: number | undefined
  askedMs: number
}

const everyMs = 60_000
const timeoutMs = 1000

/**
 * What guests' file systems hold, which the host cannot tell: blocks that a guest has freed stay in its disk until it says
 * so. A guest's agent is asked beside everything else, and never waited for.
 */
export class DiskUse {
  readonly #told = new Map<string, Told>()

  /** As it was told last. @param mostBytes of its disk */
  read(name: string, run: RunPaths, mostBytes: number): number | undefined {
    const told = this.#told.get(name)
    const nowMs = performance.now()
    if (!told || nowMs - told.askedMs >= everyMs) {
      const asked: Told = { bytes: told?.bytes, askedMs: nowMs }
      this.#told.set(name, asked)
      void ask(run, mostBytes).then((bytes) => (asked.bytes = bytes))
    }
    return told?.bytes
  }

  forget(name: string): void {
    this.#told.delete(name)
  }
}

async function ask(run: RunPaths, mostBytes: number): Promise<number | undefined> {
  if (existsSync(run.frozen)) return undefined // its agent refuses all but to thaw
  const answer = await withGuestAgent(
    run.agent,
    (agent) => agent.ask('guest-get-fsinfo', undefined, timeoutMs),
    timeoutMs,
  ).catch(() => undefined)
  return parseFileSystems(answer, mostBytes)
}
