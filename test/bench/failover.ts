import { setTimeout as delay } from 'node:timers/promises'
import { Store } from '../../gateway/store/store.js'
import { FailoverGateway } from '../support/gateway/failover-gateway.js'
import { FailoverLoad } from '../support/gateway/failover-load.js'
import { silentLog } from '../support/gateway/redis.js'
import { RedisLab } from '../support/gateway/redis-lab.js'
import { waitFor } from '../support/wait.js'
import { figure, median, timed, type Figure } from './figures.js'

export interface FailoverOptions {
  /** Number of failovers of each kind. */
  readonly rounds: number
  /** Duration in seconds of each measurement in `measureCost`. */
  readonly seconds: number
}

const writesPerSecond = 200

/**
 * Measures the cost of writes that a replica must confirm, and how long writes are refused after the master has failed.
 * The column `raw tools` shows the same store without confirmations.
 * @throws {Error} if an acknowledged write was lost or made twice
 */
export async function benchFailover({ rounds, seconds }: FailoverOptions): Promise<Figure[]> {
  const lab = await RedisLab.start()
  try {
    const cost = await measureCost(lab, seconds)
    const request = await measureRequests(lab)
    return [...cost, request, ...(await measureFailovers(lab, rounds))]
  } finally {
    await lab.stop()
  }
}

async function measureCost(lab: RedisLab, seconds: number): Promise<Figure[]> {
  const confirmed = await measureStore(lab, 1, seconds)
  const plain = await measureStore(lab, 0, seconds)
  const row = (name: string, kind: 'writes' | 'reads', of: (values: readonly number[]) => number): Figure =>
    figure(name, 'ms', { Berth: of(confirmed[kind]), 'raw tools': of(plain[kind]) })
  const rate = `with ${writesPerSecond} writes/s`
  return [
    row(`write, median ${rate}`, 'writes', median),
    row(`write, p99 ${rate}`, 'writes', (values) => percentile(values, 0.99)),
    row(`read, median ${rate}`, 'reads', median),
    row(`read, p99 ${rate}`, 'reads', (values) => percentile(values, 0.99)),
  ]
}

async function measureStore(lab: RedisLab, confirmingReplicas: number, seconds: number) {
  const store = new Store({ ...lab.server, confirmingReplicas, prefix: 'bench:', log: silentLog })
  const times = { writes: [] as number[], reads: [] as number[] }
  const note = async (into: number[], work: () => Promise<unknown>): Promise<void> => {
    into.push(await timed(work))
  }
  try {
    await store.connected(10_000)
    const pending: Promise<void>[] = []
    for (let count = 0; count < seconds * writesPerSecond; count++) {
      const value = 'x'.repeat(200)
      pending.push(note(times.writes, () => store.run('write', (client) => client.set(`bench:${count % 100}`, value))))
      pending.push(note(times.reads, () => store.run('read', (client) => client.get(`bench:${count % 100}`))))
      await delay(1000 / writesPerSecond)
    }
    await Promise.all(pending)
    return times
  } finally {
    await store.close()
  }
}

const requests = 300

/** Measures requests that change something. Each of these requests makes several writes one after another. */
async function measureRequests(lab: RedisLab): Promise<Figure> {
  const single = lab.singleConfig(await lab.master())
  const values = { Berth: await timeRequests(lab.config), 'raw tools': await timeRequests(single) }
  return figure('POST /api-keys, median', 'ms', values)
}

async function timeRequests(redis: Record<string, unknown>): Promise<number> {
  const gateway = await FailoverGateway.start(redis)
  const times: number[] = []
  try {
    for (let count = 0; count < requests; count++) times.push(await timed(() => gateway.createKey(`timed-${count}`)))
    return median(times)
  } finally {
    await gateway.close()
  }
}

function percentile(values: readonly number[], part: number): number {
  const sorted = [...values].sort((a, b) => a - b)
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] ?? NaN
}

const kinds = ['killed', 'cut off', 'isolated with the gateway', 'hanging'] as const
type Kind = (typeof kinds)[number]

async function measureFailovers(lab: RedisLab, rounds: number): Promise<Figure[]> {
  const gateway = await FailoverGateway.start(lab.config)
  const write = (name: string): Promise<boolean> => gateway.createKey(name)
  const load = new FailoverLoad({ writers: 4, pauseMs: 20, repeats: true, write })
  const gaps = new Map<Kind, number[]>(kinds.map((kind) => [kind, []]))
  try {
    for (let round = 0; round < rounds; round++)
      for (const kind of kinds) gaps.get(kind)!.push(await failOver(lab, load, kind))
    await load.end()
    const loss = await findLoss(gateway, load)
    if (loss.missing.length + loss.doubled.length > 0) throw new Error(`failover: ${JSON.stringify(loss)}`)
    return [
      ...kinds.flatMap((kind) => [
        figure(`no acknowledged write, master ${kind}, median`, 'ms', { Berth: median(gaps.get(kind)!) }),
        figure(`… longest`, 'ms', { Berth: Math.max(...gaps.get(kind)!) }),
      ]),
      figure('failovers', '', { Berth: rounds * kinds.length }),
      figure('acknowledged writes', '', { Berth: load.acknowledged.size }),
      figure('acknowledged writes that were lost', '', { Berth: loss.missing.length }),
      figure('writes that were made twice', '', { Berth: loss.doubled.length }),
    ]
  } finally {
    await load.end()
    await gateway.close()
  }
}

/** Makes the master fail, and restores it after the failover. @returns longest time in ms without an acknowledged write */
async function failOver(lab: RedisLab, load: FailoverLoad, kind: Kind): Promise<number> {
  await lab.whole()
  const master = await lab.master()
  await delay(1000)
  load.takeLongestGapMs()
  if (kind === 'killed') await lab.kill(master)
  else if (kind === 'cut off') lab.cut(master)
  else if (kind === 'isolated with the gateway') lab.isolate(master)
  else lab.signal(master, 'SIGSTOP')
  await waitFor(async () => (await lab.master()) !== master, { what: 'another master' })
  const before = load.acknowledged.size
  await waitFor(() => load.acknowledged.size > before + 10, { what: 'writes are accepted again' })
  const gapMs = load.takeLongestGapMs()
  lab.heal()
  lab.signal(master, 'SIGCONT')
  if (kind === 'killed') lab.restart(master)
  return gapMs
}

/** Returns the names of acknowledged keys that are missing, and of keys with the prefix `write-` that exist twice. */
async function findLoss(
  gateway: FailoverGateway,
  load: FailoverLoad,
): Promise<{ missing: string[]; doubled: string[] }> {
  const names = (await gateway.keyNames()).filter((name) => name.startsWith('write-'))
  const stored = new Set(names)
  const missing = [...load.acknowledged].filter((name) => !stored.has(name))
  return { missing, doubled: names.filter((name, index) => names.indexOf(name) !== index) }
}
