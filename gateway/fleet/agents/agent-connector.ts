import type { Authority } from '../../pki/authority.js'
import type { GatewayLeaf } from '../../pki/gateway-leaf.js'
import type { HostState } from '../host-state.js'
import { connectAgent, type AgentConnection, type AgentTarget } from './agent-connection.js'
import { connectForRenewal, type RenewalConnection } from './renewal-connection.js'

/** Creates connections to agents, with their current addresses and certificates. */
export class AgentConnector {
  constructor(private readonly parts: { authority: Authority; leaf: GatewayLeaf; silenceMs: number }) {}

  connect(host: HostState): AgentConnection {
    return connectAgent(this.#targetOf(host))
  }

  connectForRenewal(host: HostState): RenewalConnection {
    return connectForRenewal(this.#targetOf(host))
  }

  #targetOf(host: HostState): AgentTarget {
    const { authority, leaf, silenceMs } = this.parts
    return {
      hostId: host.record.id,
      address: host.record.address,
      caPem: authority.caPem,
      leaf: leaf.current,
      isRevoked: (serial) => !host.record.serials.includes(serial),
      silenceMs,
    }
  }
}
