import { setTimeout as delay } from 'node:timers/promises'
import type { FailoverLab, LabGateway } from './failover-lab.js'
import type { Findings } from './findings.js'
import type { LabReply } from './lab-client.js'

/** What a gateway's answer to a read shows. `undefined`: it shows nothing, for example because it is an error. */
export type Shown = 'new' | 'old' | undefined

const pauseMs = 5
const timeoutMs = 20_000

/** Measures when all gateways show a write after its acknowledgement. */
export class VisibilityProbe {
  /** Times in ms from the acknowledgement to an answer that shows the write, for gateways that work. */
  readonly calmMs: number[] = []
  /** The same while some part of the lab fails. */
  readonly faultyMs: number[] = []
  /** Gateways that fail now or recover from a failure. */
  readonly impaired = new Set<LabGateway>()
  isCalm = true
  #running = 0

  constructor(
    private readonly lab: FailoverLab,
    private readonly findings: Findings,
  ) {}

  /** True if another probe may begin: they must not become a large part of the load. */
  get isFree(): boolean {
    return this.#running < 2
  }

  /** Reads at all gateways until they show the write. */
  async run(
    what: string,
    read: (gateway: LabGateway) => Promise<LabReply>,
    judge: (reply: LabReply) => Shown,
  ): Promise<void> {
    this.#running++
    const beganMs = performance.now()
    const gateways = this.lab.gateways.filter((gateway) => !this.impaired.has(gateway))
    const probe = (gateway: LabGateway) => this.#probe({ what, gateway, beganMs, read: () => read(gateway), judge })
    await Promise.all(gateways.map(probe))
    this.#running--
  }

  async #probe({ what, gateway, beganMs, read, judge }: Probe): Promise<void> {
    const wasCalm = this.isCalm
    for (let reads = 1; performance.now() - beganMs < timeoutMs; reads++) {
      const shown = judge(await read())
      if (shown === 'old') this.#noteStale(`${what} at ${gateway.host}, read ${reads}`, beganMs)
      if (shown === 'new') {
        const times = wasCalm && this.isCalm ? this.calmMs : this.faultyMs
        times.push(performance.now() - beganMs)
        return
      }
      await delay(pauseMs)
    }
  }

  #noteStale(what: string, beganMs: number): void {
    const state = this.isCalm ? 'calm' : 'fault'
    this.findings.stale.push(`${what}, after ${Math.round(performance.now() - beganMs)} ms (${state})`)
  }
}

interface Probe {
  readonly what: string
  readonly gateway: LabGateway
  readonly beganMs: number
  readonly read: () => Promise<LabReply>
  readonly judge: (reply: LabReply) => Shown
}
