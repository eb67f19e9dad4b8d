import type { AgentPackages, UpgradeOrder } from '../../../agent/upgrade/contract.js'

/** Implements an agent's packages in memory. It stores the requests, which tests carry out. */
export class MemoryPackages implements AgentPackages {
  supported = false
  previous = ''
  /** While set, every request to install packages throws this error. */
  failure: Error | undefined
  readonly orders: UpgradeOrder[] = []

  isSupported(): boolean {
    return this.supported
  }

  previousVersion(): string {
    return this.previous
  }

  async start(order: UpgradeOrder): Promise<void> {
    if (this.failure) throw this.failure
    this.orders.push(order)
  }
}
