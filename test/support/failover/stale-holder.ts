import { ensureAuthority } from '../../../gateway/pki/authority.js'
import { connectAgent, type AgentConnection } from '../../../gateway/fleet/agents/agent-connection.js'
import { Metadata } from '@grpc/grpc-js'
import { fenceKey, formatFence, type Fence } from '../../../shared/fence.js'
import { join } from 'node:path'
import type { FailoverLab } from './failover-lab.js'

/** Calls an agent with the epoch of a lost lease, like a gateway that has lost its lease. */
export class StaleHolder {
  private constructor(private readonly connection: AgentConnection) {}

  static async connect(lab: FailoverLab, hostId: string, address: string): Promise<StaleHolder> {
    const authority = await ensureAuthority(join(lab.stateDir, 'pki'), 30)
    const leaf = await authority.issue({ role: 'gateway' }, 24 * 3_600_000)
    const target = { hostId, address, caPems: [authority.caPem], leaf, isRevoked: () => false, silenceMs: 15_000 }
    return new StaleHolder(connectAgent(target))
  }

  /** @returns `accepted`, or the details of the refusal */
  call(fence: Fence): Promise<string> {
    const metadata = new Metadata()
    metadata.set(fenceKey, formatFence(fence))
    return new Promise((resolve) => {
      this.connection.hosts.describe({}, metadata, (error) => resolve(error ? error.details : 'accepted'))
    })
  }

  close(): void {
    this.connection.close()
  }
}
