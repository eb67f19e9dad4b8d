import { setTimeout as delay } from 'node:timers/promises'
import { waitFor } from '../wait.js'
import { Faults, type FaultResult } from './faults.js'
import type { FailoverLab } from './failover-lab.js'
import { compareFinalState } from './final-state.js'
import { Findings } from './findings.js'
import { GuestWriters } from './guest-writers.js'
import { KeyWriters } from './key-writers.js'
import { randomFrom, type Fault } from './plan-faults.js'
import { countEvents, type EventCounts } from './received-events.js'
import { SettingWriters } from './setting-writers.js'
import { StaleHolder } from './stale-holder.js'
import { VisibilityProbe } from './visibility-probe.js'
import { Writes } from './writes.js'

export interface TrialOptions {
  readonly seed: number
  readonly faults: readonly Fault[]
  /** Number of simultaneous creations. */
  readonly creations: number
  /** Mean pause in ms of a writer of guests after each write. */
  readonly pauseMs: number
  /** Other writes per second: API keys and settings of guests. */
  readonly writesPerSecond: number
  readonly cutMs: number
  readonly stopMs: number
  readonly log: (text: string) => void
}

export interface TrialResult {
  readonly seconds: number
  readonly results: readonly FaultResult[]
  readonly writes: Writes
  readonly created: number
  readonly probe: VisibilityProbe
  readonly events: EventCounts
  /** Number of calls with an epoch, number of refused calls, and the highest epoch of a call. */
  readonly fenced: { readonly calls: number; readonly refused: number; readonly highest: number }
  readonly findings: Findings
}

/** Time in ms without a further event, after which the trial assumes that all events have arrived. */
const quietMs = 5000
/** Maximum number of simultaneous other writes. */
const mostAtOnce = 100
const fencedWork = 'fleet-upgrade-worker'

/** Writes to a lab while its parts fail one after another, and compares the result with all acknowledged writes. */
export class FailoverTrial {
  readonly #findings = new Findings()
  readonly #writes = new Writes()
  readonly #probe: VisibilityProbe
  readonly #keys: KeyWriters
  readonly #settings: SettingWriters
  #isEnded = false

  constructor(
    private readonly lab: FailoverLab,
    private readonly options: TrialOptions,
  ) {
    this.#probe = new VisibilityProbe(lab, this.#findings)
    this.#keys = new KeyWriters(lab, this.#writes, this.#findings, this.#probe)
    this.#settings = new SettingWriters(lab, this.#writes, this.#findings, this.#probe)
  }

  async run(): Promise<TrialResult> {
    const { lab, options } = this
    const beganMs = performance.now()
    const random = randomFrom(options.seed + 1)
    const { creations: writers, pauseMs } = options
    const guests = new GuestWriters(lab, this.#writes, this.#findings, { writers, pauseMs, random })
    const others = Promise.all([this.#writeOthers(), this.#pressUpgrades()])
    others.catch(() => undefined) // the error is thrown below
    const results = await this.#fail(beganMs)
    const seconds = (performance.now() - beganMs) / 1000
    this.#isEnded = true
    await Promise.all([others, guests.end()])
    options.log('all writes have a result')
    await this.#settle()
    await compareFinalState(lab, { guests, keys: this.#keys, settings: this.#settings }, this.#findings)
    const taskIds = [...guests.created.values()].map(({ taskId }) => taskId)
    const events = countEvents(lab.receiver.messages, taskIds, this.#findings)
    const [writes, probe, findings] = [this.#writes, this.#probe, this.#findings]
    const fenced = await this.#checkStaleHolder()
    return { seconds, results, writes, created: guests.created.size, probe, events, fenced, findings }
  }

  async #fail(beganMs: number): Promise<FaultResult[]> {
    const { lab, options } = this
    const faults = new Faults({ ...options, lab, writes: this.#writes, probe: this.#probe })
    const results: FaultResult[] = []
    await delay(3000)
    for (const fault of options.faults) {
      const result = await faults.run(fault)
      results.push(result)
      const at = Math.round((performance.now() - beganMs) / 1000)
      options.log(`${at} s: ${describeFault(fault, result)}, ${this.#writes.acknowledged} writes`)
      await delay(1000)
    }
    return results
  }

  /** Starts writes of keys and settings at a constant rate. Pauses while `mostAtOnce` of them have no result. */
  async #writeOthers(): Promise<void> {
    const running = new Set<Promise<void>>()
    const intervalMs = 1000 / this.options.writesPerSecond
    const beganMs = performance.now()
    for (let count = 0; !this.#isEnded; count++) {
      const write = this.#writeOther(count).finally(() => running.delete(write))
      running.add(write)
      while (running.size >= mostAtOnce) await Promise.race(running)
      await delay(Math.max(0, beganMs + count * intervalMs - performance.now()))
    }
    await Promise.all(running)
  }

  async #writeOther(count: number): Promise<void> {
    const kind = count % 10
    if (kind >= 7) return this.#settings.write()
    if (kind >= 4 && (await this.#keys.deleteOldest())) return
    return this.#keys.create()
  }

  /** Resumes a fleet upgrade repeatedly, so that the gateway with its lease calls a host, which refuses each time. */
  async #pressUpgrades(): Promise<void> {
    const { client } = this.lab
    await this.lab.writePackages()
    let hasBegun = false
    while (!this.#isEnded) {
      if (hasBegun) await client.send('POST', '/fleet/upgrade/resume', { timeoutMs: 40_000 })
      else hasBegun = await this.#beginUpgrade()
      await delay(500)
    }
  }

  /** Requests the upgrade of the fleet. @returns true if the upgrade has begun now or earlier */
  async #beginUpgrade(): Promise<boolean> {
    const request = { body: { parallel: 2 }, idempotencyKey: 'upgrade' }
    const { status, body } = await this.lab.client.send('POST', '/fleet/upgrade', request)
    return (status >= 200 && status < 300) || body?.code === 'upgrade_running'
  }

  /** Waits until all gateways show all hosts, no operation is pending, and no further event arrives. */
  async #settle(): Promise<void> {
    await this.lab.complete()
    await waitFor(async () => (await this.#pendingTasks()) === 0, { what: 'no task is pending' })
    const { messages } = this.lab.receiver
    const isQuiet = async (): Promise<boolean> => {
      const seen = messages.length
      await delay(quietMs)
      return messages.length === seen
    }
    await waitFor(isQuiet, { what: () => `no further event: ${messages.length} have arrived` })
  }

  async #pendingTasks(): Promise<number> {
    const replies = ['pending', 'running'].map((status) => this.lab.client.send('GET', `/tasks?status=${status}`))
    const counts = (await Promise.all(replies)).map(({ status, body }) =>
      status === 200 ? (body.data as unknown[]).length : 1,
    )
    return counts.reduce((sum, count) => sum + count, 0)
  }

  /** Calls an agent with an epoch below the highest one so far. The agent must refuse. @returns counts of all calls */
  async #checkStaleHolder(): Promise<TrialResult['fenced']> {
    const { lab } = this
    const all = (await lab.report()).fenced.flat().filter(({ work }) => work === fencedWork)
    const highest = Math.max(0, ...all.map(({ epoch }) => epoch))
    if (highest > 1) {
      const holder = await StaleHolder.connect(lab, lab.hosts[0]!.id, lab.agentAddress(0))
      const answer = await holder.call({ work: fencedWork, epoch: highest - 1 })
      if (answer === 'accepted') this.#findings.fences.push(`epoch ${highest - 1} was accepted after ${highest}`)
      holder.close()
    }
    return { calls: all.length, refused: all.filter(({ isStale }) => isStale).length, highest }
  }
}

function describeFault({ kind, gateway }: Fault, { gapMs, readyMs, viewMs }: FaultResult): string {
  const where = kind.startsWith('gateway') ? ` (${gateway + 1})` : ''
  const times = [`no key written for ${Math.round(gapMs)} ms`]
  if (readyMs !== undefined) times.push(`ready after ${Math.round(readyMs)} ms`)
  if (viewMs !== undefined) times.push(`whole view ${Math.round(viewMs)} ms later`)
  return `${kind}${where}: ${times.join(', ')}`
}
