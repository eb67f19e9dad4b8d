import { spawn, type ChildProcess } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { Operation } from '../../proto/gen/berth/agent/v1/operation.js'
import { startTestGateway, type TestGateway } from '../support/gateway/test-gateway.js'
import { waitFor } from '../support/wait.js'

export interface EventLoad {
  readonly listeners: number
  /** Number of listeners that stop reading. */
  readonly slow: number
  readonly changesPerSecond: number
  readonly seconds: number
}

interface EventFigures {
  readonly told: readonly { readonly events: number; readonly gaps: number; readonly resets: number }[]
  readonly p50: number
  readonly p99: number
}

/** Measures a gateway whose tasks change continuously, with many listeners in another process. */
export async function benchEvents(load: EventLoad): Promise<void> {
  const gateway = await startTestGateway()
  const child = spawn(process.execPath, ['--import', 'tsx', join(import.meta.dirname, 'events-clients-main.ts')], {
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  let output = ''
  child.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()))
  try {
    const order = { port: Number(new URL(gateway.url).port), key: gateway.adminKey, ...load }
    child.stdin.write(`${JSON.stringify(order)}\n`)
    await waitFor(() => output.includes('listening'), { what: 'listeners' })
    const before = process.memoryUsage().rss
    const figures = await change(gateway, load)
    const told = await askWhatCame(child, () => output)
    print(load, { ...figures, told, beforeMb: toMb(before) })
  } finally {
    child.kill()
    await gateway.close()
  }
}

const toMb = (bytes: number): number => Math.round(bytes / 1024 ** 2)
const tasks = 200

interface Figures {
  readonly changes: number
  readonly processorPct: number
  readonly peakMb: number
}

async function change(gateway: TestGateway, { changesPerSecond, seconds }: EventLoad): Promise<Figures> {
  const { view } = gateway.fleet
  const host = view.findState('host-a')!
  const ids = Array.from({ length: tasks }, () => randomUUID())
  const [begunMs, used] = [performance.now(), process.cpuUsage()]
  let [changes, peakMb] = [0, 0]
  for (const end = begunMs + seconds * 1000; performance.now() < end; await delay(5)) {
    const due = ((performance.now() - begunMs) / 1000) * changesPerSecond
    for (; changes < due; changes++)
      view.apply(host, {
        $case: 'operation',
        value: Operation.fromPartial({
          id: ids[changes % tasks]!,
          action: 'restart',
          status: 'running',
          progress: changes % 100,
          stage: `at ${Date.now()}`,
          revision: 1e6 + changes,
          createdAtMs: Date.now(),
          subject: {
            kind: 'guest',
            id: randomUUID(),
            name: `bench-${changes % tasks}`,
            number: 1 + (changes % tasks),
          },
        }),
      })
    peakMb = Math.max(peakMb, toMb(process.memoryUsage.rss()))
  }
  const { user, system } = process.cpuUsage(used)
  const processorPct = (user + system) / 10 / (performance.now() - begunMs)
  await delay(2000) // waits until pending events have arrived
  return { changes, processorPct, peakMb }
}

async function askWhatCame(child: ChildProcess, read: () => string): Promise<EventFigures> {
  child.stdin!.write('wake\n')
  await waitFor(() => read().includes('awake'), {
    what: 'those that read nothing read again',
  })
  child.stdin!.end()
  await once(child.stdout!, 'end')
  return JSON.parse(read().trim().split('\n').at(-1) ?? '') as EventFigures
}

function print(
  { listeners, slow, changesPerSecond }: EventLoad,
  { changes, processorPct, told, beforeMb, peakMb }: Figures & { told: EventFigures; beforeMb: number },
): void {
  const quick = told.told.slice(slow)
  const complete = quick.filter(({ events, gaps, resets }) => events >= changes && gaps === 0 && resets === 0)
  console.log(`\n### Events: ${listeners} listeners, ${changesPerSecond} changes a second\n`)
  console.log(`| | |\n|---|---|`)
  console.log(`| changes | ${changes} |`)
  console.log(`| listeners that keep up, with all of them in order | ${complete.length} of ${quick.length} |`)
  const restarted = told.told.slice(0, slow).filter(({ resets }) => resets === 1)
  console.log(`| listeners that stopped reading and received a reset | ${restarted.length} of ${slow} |`)
  console.log(`| from the change to the listener, p50, p99 | ${told.p50} ms, ${told.p99} ms |`)
  console.log(`| processor of the gateway, writing of changes included | ${processorPct.toFixed(0)} % of one |`)
  console.log(`| resident memory before, at most | ${beforeMb} MB, ${peakMb} MB |`)
}
