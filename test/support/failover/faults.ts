import { setTimeout as delay } from 'node:timers/promises'
import { waitFor } from '../wait.js'
import type { FailoverLab, LabGateway } from './failover-lab.js'
import type { Fault, FaultKind } from './plan-faults.js'
import type { VisibilityProbe } from './visibility-probe.js'
import type { Writes } from './writes.js'

export interface FaultResult {
  readonly kind: FaultKind
  /** Longest time in ms without an acknowledged write of a key, at any gateway. */
  readonly gapMs: number
  /** Time in ms from the end of the fault (start of the process, or repair) until the gateway is ready. */
  readonly readyMs?: number
  /** Time in ms from the moment when the gateway is ready until it shows all hosts and guests. */
  readonly viewMs?: number
}

export interface FaultParts {
  readonly lab: FailoverLab
  readonly writes: Writes
  readonly probe: VisibilityProbe
  /** Time in ms for which a gateway is cut off. */
  readonly cutMs: number
  readonly stopMs: number
}

/** Number of writes that must succeed before a fault counts as over. */
const enoughWrites = 20

/** Makes parts of the lab fail, one after another. Each call returns when everything works again. */
export class Faults {
  constructor(private readonly parts: FaultParts) {}

  async run({ kind, gateway }: Fault): Promise<FaultResult> {
    const { probe, writes } = this.parts
    probe.isCalm = false
    writes.takeLongestGapMs()
    const times = kind.startsWith('master') ? await this.#failMaster(kind) : await this.#failGateway(kind, gateway)
    probe.isCalm = true
    return { kind, ...times }
  }

  async #failMaster(kind: FaultKind): Promise<{ gapMs: number }> {
    const { lab, writes } = this.parts
    const master = await lab.redis.master()
    const isKilled = kind === 'master killed'
    if (isKilled) await lab.redis.kill(master)
    else this.#isolate(lab.addresses.redis[master]!)
    await lab.redis.masterOtherThan(master)
    await this.#waitForWrites()
    const gapMs = writes.takeLongestGapMs()
    if (isKilled) lab.redis.restart(master)
    else lab.network.heal()
    await lab.redis.whole()
    return { gapMs }
  }

  async #failGateway(kind: FaultKind, index: number) {
    const { lab, writes, probe } = this.parts
    const gateway = lab.gateways[index]!
    probe.impaired.add(gateway)
    await this.#breakGateway(kind, gateway)
    const gapMs = writes.takeLongestGapMs()
    const times = await this.#measureRecovery(gateway)
    probe.impaired.delete(gateway)
    await this.#waitForWrites()
    return { gapMs, ...times }
  }

  /** Lets a gateway fail for some time, and ends the fault. */
  async #breakGateway(kind: FaultKind, gateway: LabGateway): Promise<void> {
    const { lab, stopMs } = this.parts
    if (kind === 'gateway killed') {
      await gateway.process.kill()
      await delay(1000)
      return lab.startGateway(gateway)
    }
    if (kind === 'gateway stopped for 30 s') {
      process.kill(gateway.process.pid, 'SIGSTOP')
      await delay(stopMs)
      return void process.kill(gateway.process.pid, 'SIGCONT')
    }
    const { agents, redis, proxy } = lab.addresses
    const others = { 'gateway cut off from hosts': agents, 'gateway cut off from Redis': redis } as Record<
      string,
      string[]
    >
    lab.network.cut([gateway.host], others[kind] ?? proxy)
    await delay(this.parts.cutMs)
    lab.network.heal()
  }

  async #measureRecovery(gateway: LabGateway): Promise<{ readyMs: number; viewMs: number }> {
    const beganMs = performance.now()
    await waitFor(() => isReady(gateway), { what: () => `gateway ready\n${gateway.process.logTail()}`, intervalMs: 20 })
    const readyMs = performance.now() - beganMs
    const isWhole = () => this.parts.lab.hasWholeView(gateway)
    await waitFor(isWhole, { what: () => `whole view\n${gateway.process.logTail()}`, intervalMs: 20 })
    return { readyMs, viewMs: performance.now() - beganMs - readyMs }
  }

  #isolate(host: string): void {
    const { lab } = this.parts
    lab.network.cut([host], Object.values(lab.addresses).flat())
  }

  async #waitForWrites(): Promise<void> {
    const { writes } = this.parts
    const before = writes.acknowledged
    await waitFor(() => writes.acknowledged >= before + enoughWrites, { what: 'acknowledged writes' })
  }
}

async function isReady({ client }: LabGateway): Promise<boolean> {
  return (await client.send('GET', '/language', { timeoutMs: 2000 })).status === 200
}
