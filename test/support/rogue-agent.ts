import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { resolve } from 'node:path'
import { Operation } from '../../proto/gen/berth/agent/v1/operation.js'
import type { WatchResponse, WatchServiceServer } from '../../proto/gen/berth/agent/v1/watch.js'

type Event = NonNullable<WatchResponse['event']>

/** A Watch that says what it is told to, true or not, and then changes without end if asked. */
export function rogueWatch(events: readonly Event[], options: { flood?: boolean } = {}): WatchServiceServer {
  return {
    watch: (call) => {
      let revision = 0
      const send = (event: Event): boolean => call.write({ revision: ++revision, event })
      call.on('error', () => undefined)
      send({ $case: 'reset', value: {} })
      events.forEach(send)
      send({ $case: 'synced', value: { epoch: 'rogue' } })
      if (!options.flood) return
      const stage = 'x'.repeat(5000)
      const flood = (): void => {
        while (!call.destroyed && !call.cancelled) {
          const value = Operation.fromPartial({ id: `op-${revision % 50_000}`, stage, createdAtMs: revision })
          if (!send({ $case: 'operation', value })) return void call.once('drain', flood)
        }
      }
      flood()
    },
  }
}

export interface AgentProcess {
  readonly address: string
  signal(signal: NodeJS.Signals): void
  stop(): void
}

/** A simulated agent as a process of its own. @param args see simulated-agent-main.ts */
export async function startAgentProcess(args: readonly string[]): Promise<AgentProcess> {
  const program = resolve(import.meta.dirname, 'simulated-agent-main.ts')
  const child = spawn(process.execPath, ['--import=tsx', program, ...args], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const [line] = (await Promise.race([
    once(child.stdout, 'data'),
    once(child, 'exit').then(() => {
      throw new Error('the agent ended')
    }),
  ])) as [Buffer]
  const { address } = JSON.parse(line.toString()) as { address: string }
  return {
    address,
    signal: (signal) => void child.kill(signal),
    stop: () => void child.kill('SIGKILL'),
  }
}
