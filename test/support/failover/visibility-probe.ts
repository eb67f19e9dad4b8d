import { setTimeout as delay } from 'node:timers/promises'
import type { FailoverLab, LabGateway } from './failover-lab.js'
import type { Findings } from './findings.js'
import type { LabReply } from './lab-client.js'

/** The state that a gateway's answer shows. `undefined`: it shows neither state, for example because it is an error. */
export type ShownState = 'new' | 'old' | undefined

const pauseMs = 5
const timeoutMs = 20_000

/** Measures the time from the acknowledgement of a write until all gateways show the write. */
export class VisibilityProbe {
  /** Times in ms from the acknowledgement to an answer that shows the write, for gateways that work. */
  readonly calmMs: number[] = []
  /** Like `calmMs`, but for times in which some part of the lab fails. */
  readonly faultyMs: number[] = []
  /**
   * Reads of guests that showed an old state although they began after the acknowledgement. The documentation permits
   * this if a gateway gets the report of a host more than 1.2 s late.
   */
  readonly lateGuests: string[] = []
  /** Gateways that fail now or recover from a failure. */
  readonly impaired = new Set<LabGateway>()
  isCalm = true
  #running = 0

  constructor(
    private readonly lab: FailoverLab,
    private readonly findings: Findings,
  ) {}

  /** True if another probe may begin. Few probes run simultaneously, so that they are only a small part of the load. */
  get isFree(): boolean {
    return this.#running < 2
  }

  /** Reads from each working gateway until it shows the write, for at most 20 s. */
  async run(probe: Probe): Promise<void> {
    this.#running++
    const beganMs = performance.now()
    const gateways = this.lab.gateways.filter((gateway) => !this.impaired.has(gateway))
    await Promise.all(gateways.map((gateway) => this.#probe(gateway, probe, beganMs)))
    this.#running--
  }

  async #probe(gateway: LabGateway, { what, read, judge, isGuest = false }: Probe, beganMs: number): Promise<void> {
    const wasCalm = this.isCalm
    for (let reads = 1; performance.now() - beganMs < timeoutMs; reads++) {
      const shown = judge(await read(gateway))
      if (shown === 'old')
        this.#noteStale(
          isGuest ? this.lateGuests : this.findings.stale,
          `${what} at ${gateway.host}, read ${reads}`,
          beganMs,
        )
      if (shown === 'new') {
        const times = wasCalm && this.isCalm ? this.calmMs : this.faultyMs
        times.push(performance.now() - beganMs)
        return
      }
      await delay(pauseMs)
    }
  }

  #noteStale(list: string[], what: string, beganMs: number): void {
    const state = this.isCalm ? 'calm' : 'fault'
    list.push(`${what}, after ${Math.round(performance.now() - beganMs)} ms (${state})`)
  }
}

export interface Probe {
  readonly what: string
  readonly read: (gateway: LabGateway) => Promise<LabReply>
  readonly judge: (reply: LabReply) => ShownState
  /** True if the data comes from a host instead of the store. */
  readonly isGuest?: boolean
}
