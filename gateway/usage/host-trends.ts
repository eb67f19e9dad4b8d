import { eachLimited } from '../../shared/async/each-limited.js'
import { KeyedSingleFlight } from '../../shared/async/single-flight.js'
import type { History } from '../../proto/gen/berth/agent/v1/history.js'
import type { Fleet, HostView } from '../fleet/contract.js'
import { answerWithin } from './answer-within.js'
import { planDaysUntilFull, planSparkline, type Series } from './plan-usage.js'

/** Data of a host that changes slowly. Absent or null: not known. */
export interface HostTrend {
  /** Processor usage of the last 24 hours, oldest first. */
  readonly cpu: readonly (number | null)[]
  readonly diskFullInDays: number | null
  /** Usage of the pool of public IPv4 addresses. */
  readonly ipv4: { readonly used: number; readonly total: number } | null
}

const unknown: HostTrend = { cpu: [], diskFullInDays: null, ipv4: null }

/** Age in ms from which a trend is read again. A failed reading is repeated after `retryMs`. */
const freshMs = 10 * 60_000
const retryMs = 60_000
/** Maximum number of hosts whose trends are read at the same time. */
const parallel = 8
/** Maximum time in ms that a caller waits. Hosts that answer later are included in the next answer. */
const patienceMs = 2000

/** Reads and caches the trends of hosts, so that a page with many hosts needs no calls to agents. */
export class HostTrends {
  readonly #known = new Map<string, { trend: HostTrend; nextMs: number }>()
  readonly #reading = new KeyedSingleFlight<string>()

  constructor(private readonly fleet: Pick<Fleet, 'agent'>) {}

  /** Returns a function that finds the last known trend of a host. Waits a short time for new trends. Never rejects. */
  async read(hosts: readonly HostView[]): Promise<(hostId: string) => HostTrend> {
    this.#forget(hosts)
    const stale = hosts.filter(({ id, state }) => state === 'online' && this.#isStale(id))
    const reading = eachLimited(stale, { limit: parallel }, (host) =>
      this.#reading.run(host.id, () => this.#readOne(host)),
    )
    await answerWithin(patienceMs, reading)
    return (hostId) => this.#known.get(hostId)?.trend ?? unknown
  }

  #isStale(hostId: string): boolean {
    return performance.now() >= (this.#known.get(hostId)?.nextMs ?? 0)
  }

  #forget(hosts: readonly HostView[]): void {
    if (this.#known.size <= hosts.length) return
    const ids = new Set(hosts.map(({ id }) => id))
    for (const id of this.#known.keys()) if (!ids.has(id)) this.#known.delete(id)
  }

  async #readOne(host: HostView): Promise<void> {
    const before = this.#known.get(host.id)?.trend ?? unknown
    try {
      this.#known.set(host.id, { trend: await this.#ask(host), nextMs: performance.now() + freshMs })
    } catch {
      // The host went offline or is too slow. The last known trend stays visible.
      this.#known.set(host.id, { trend: before, nextMs: performance.now() + retryMs })
    }
  }

  async #ask({ id, metrics }: HostView): Promise<HostTrend> {
    const { hosts, routing } = this.fleet.agent(id)
    const [day, month, pools] = await Promise.all([
      hosts.getHostHistory({ range: 'day' }),
      hosts.getHostHistory({ range: 'month' }),
      routing.getRouting({}),
    ])
    return {
      cpu: planSparkline(seriesOf(day.history, 'cpuUsagePct'), Date.now()),
      diskFullInDays: planDaysUntilFull(seriesOf(month.history, 'diskBytes'), metrics?.diskTotalBytes ?? 0),
      ipv4: { used: pools.ipv4Assignments.length, total: pools.ipv4Pool.length },
    }
  }
}

/** Maximum number of values in a history. Agents do not send more. */
const mostValues = 1440

function seriesOf(history: History | undefined, column: 'cpuUsagePct' | 'diskBytes'): Series {
  return {
    startMs: history?.startMs ?? 0,
    stepMs: (history?.stepSeconds ?? 0) * 1000,
    values: history?.[column].slice(0, mostValues) ?? [],
  }
}
