import type { AgentPackages, UpgradeOrder } from '../../../agent/upgrade/contract.js'

/** Implements an agent's packages in memory. It stores the requests, which tests carry out. */
export class MemoryPackages implements AgentPackages {
  supported = false
  previous = ''
  /** An error that every request to install packages throws while it is set. */
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
