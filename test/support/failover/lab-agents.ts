import { Fences } from '../../../agent/rpc/fences.js'
import { StaleEpochError, type Fence } from '../../../shared/fence.js'
import { joinGateway } from '../../../agent/enrollment/join.js'
import { LabAgent } from '../memory/lab-agent.js'
import { MemoryHost } from '../memory/memory-host.js'

export interface LabAgentOrder {
  readonly name: string
  readonly identityDir: string
  readonly token: string
  /** Address as host:port. */
  readonly listen: string
  readonly guests: number
  readonly firstId: number
}

/** A call with an epoch that an agent accepted or refused. */
export interface FencedCall extends Fence {
  readonly isStale: boolean
}

export interface ReportedGuest {
  readonly name: string
  readonly uuid: string
  readonly expiresAtMs: number
}

/** The state of an agent in memory, and its record of all operations. */
export interface AgentReport {
  readonly name: string
  readonly guests: readonly ReportedGuest[]
  /** How often each step of an operation was completed, by the operation's id and the name of the step. */
  readonly steps: Readonly<Record<string, number>>
}

export interface AgentsReport {
  readonly agents: readonly AgentReport[]
  /** Calls with an epoch: a list for each agent that got such calls, with the oldest call first. */
  readonly fenced: readonly (readonly FencedCall[])[]
}

/** A host that has resources for thousands of guests. */
const size = { cpuCores: 256, ramTotalMb: 4_194_304, diskTotalGb: 65_536 }

const fencedCalls = new Map<Fences, FencedCall[]>()

/** Records the result of every check of an epoch. Each agent has one object `Fences`. */
function recordFences(): void {
  const prototype: { pass: (this: Fences, fence: Fence) => void } = Fences.prototype
  const { pass } = prototype
  Fences.prototype.pass = function (this: Fences, fence: Fence): void {
    const calls = fencedCalls.get(this) ?? []
    fencedCalls.set(this, calls)
    try {
      pass.call(this, fence)
      calls.push({ ...fence, isStale: false })
    } catch (error) {
      if (error instanceof StaleEpochError) calls.push({ ...fence, isStale: true })
      throw error
    }
  }
}

/** Agents in memory that record the operations that they execute. */
export class LabAgents {
  readonly #agents: { readonly name: string; readonly agent: LabAgent; readonly steps: Map<string, number> }[] = []

  static async start(orders: readonly LabAgentOrder[]): Promise<LabAgents> {
    recordFences()
    const agents = new LabAgents()
    for (const order of orders) await agents.#add(order)
    return agents
  }

  async #add({ name, identityDir, token, listen, guests, firstId }: LabAgentOrder): Promise<void> {
    await joinGateway(token, identityDir)
    const host = new MemoryHost(size)
    // The host supports upgrades but refuses each one, so that the gateway with the lease calls it repeatedly.
    host.packages.supported = true
    host.packages.failure = new Error('this host refuses to install packages')
    const agent = await LabAgent.start({ identityDir, listen, host })
    const steps = new Map<string, number>()
    agent.observer = ({ operationId, step, phase }) => {
      if (phase !== 'after-run') return
      const key = `${operationId} ${step}`
      steps.set(key, (steps.get(key) ?? 0) + 1)
    }
    agent.seed(guests, firstId)
    this.#agents.push({ name, agent, steps })
  }

  report(): AgentsReport {
    const agents = this.#agents.map(({ name, agent, steps }) => ({
      name,
      guests: agent.guests().map(({ name: guest, uuid, expiresAtMs }) => ({ name: guest, uuid, expiresAtMs })),
      steps: Object.fromEntries(steps),
    }))
    return { agents, fenced: [...fencedCalls.values()] }
  }

  async destroy(): Promise<void> {
    for (const { agent } of this.#agents) await agent.destroy()
  }
}
