import type { AgentPackages, UpgradeOrder } from '../../../agent/upgrade/contract.js'

/** Packages of an agent, whose installation tests carry out. */
export class MemoryPackages implements AgentPackages {
  supported = false
  previous = ''
  /** Thrown by the next orders. */
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
