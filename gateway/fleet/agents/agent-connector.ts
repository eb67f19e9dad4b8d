import type { KeyedCertificate } from '../../pki/authority.js'
import type { FleetAuthority } from '../../pki/fleet-authority.js'
import type { HostRecord } from '../host-record.js'
import type { HostState } from '../host-state.js'
import { connectAgent, type AgentConnection, type AgentTarget } from './agent-connection.js'
import { connectForRenewal, type RenewalConnection } from './renewal-connection.js'

export interface AgentConnectorParts {
  readonly authority: Pick<FleetAuthority, 'trusted'>
  /** Returns the gateway's certificate for connections to a host. */
  readonly leafFor: (record: HostRecord) => KeyedCertificate
  readonly silenceMs: number
}

/** Creates connections to agents, with their current addresses and certificates. */
export class AgentConnector {
  constructor(private readonly parts: AgentConnectorParts) {}

  connect(host: HostState): AgentConnection {
    return connectAgent(this.#targetOf(host))
  }

  connectForRenewal(host: HostState): RenewalConnection {
    return connectForRenewal(this.#targetOf(host))
  }

  #targetOf(host: HostState): AgentTarget {
    const { authority, leafFor, silenceMs } = this.parts
    return {
      hostId: host.record.id,
      address: host.record.address,
      caPems: authority.trusted.map(({ caPem }) => caPem),
      leaf: leafFor(host.record),
      isRevoked: (serial) => !host.record.serials.includes(serial),
      silenceMs,
    }
  }
}
