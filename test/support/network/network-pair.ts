import type { GuestNetwork, NatMapping } from '../../../agent/network/contract.js'
import { clientAddress, NetworkLab, type AgentNetwork } from './network-lab.js'
import { waitFor } from '../wait.js'

export const tcp = (hostPort: number, containerPort = 22): NatMapping => ({
  protocol: 'tcp',
  hostIp: '',
  hostPort,
  hostPortEnd: hostPort,
  containerPort,
})
export const udp = (hostPort: number, containerPort = 53): NatMapping => ({
  ...tcp(hostPort, containerPort),
  protocol: 'udp',
})

/** The host's address in the network of the guests. The guests use it as their gateway. */
export const gateway = '10.77.0.1'

/** A network lab with two guests that have port mappings. Both guests, the client and the host run servers. */
export class NetworkPair {
  readonly lab: NetworkLab
  readonly a: GuestNetwork
  readonly b: GuestNetwork
  readonly all: readonly GuestNetwork[]
  readonly inA: string
  readonly inB: string
  /** The network that `open` has started. A test may replace it. */
  agent!: AgentNetwork

  constructor(prefix: string) {
    this.lab = new NetworkLab(prefix)
    this.a = this.lab.guest(11, [tcp(20001), udp(20001)])
    this.b = this.lab.guest(12, [tcp(20002)])
    this.all = [this.a, this.b]
    this.inA = this.lab.namespaceOf(this.a)
    this.inB = this.lab.namespaceOf(this.b)
  }

  async open(): Promise<void> {
    const { lab, all } = this
    lab.build()
    this.agent = lab.agent()
    await this.agent.ensure(all)
    for (const guest of all) {
      await this.agent.call('attach', guest)
      lab.plug(guest)
      await lab.serve(lab.namespaceOf(guest), guest.device, 'tcp:22', 'udp:53')
    }
    await lab.serve(lab.client, 'client', 'tcp:80', 'udp:53')
    // Starts programs of the host, which listen on all of its addresses.
    await lab.serve(lab.host, 'host', 'tcp:22', 'tcp:7443', 'tcp:8080', 'udp:53')
    await waitFor(() => lab.ask(this.inA, `tcp:${clientAddress}:80`), { what: 'an answer from the client outside' })
  }
}
