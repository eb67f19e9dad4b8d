import type { GuestNetwork } from '../../../agent/network/contract.js'
import type { Ipv6Status, RoutingState } from '../../../agent/network/addresses/routing.js'
import { openAddressBook, runGuest } from './address-book.js'
import { clientAddress, NetworkLab, type AgentNetwork } from './network-lab.js'
import { waitFor } from '../wait.js'

/** The interface of the lab's host towards the client. */
const uplink = { interface: 'up0', gateway: '' }
export const poolItem = (address: string) => ({ ...uplink, address, prefixLen: 24 })
export const prefixItem = (prefix: string, prefixLen: number) => ({
  ...uplink,
  address: '',
  prefix,
  prefixLen,
})

/** Returns the error message of a call; `accepted` if the call succeeds. */
export function failure(call: Promise<unknown>): Promise<string> {
  return call.then(
    () => 'accepted',
    (error: Error) => error.message,
  )
}

/** A network lab with two guests. The agent's address pools manage their addresses. All machines run servers. */
export class AddressedPair {
  readonly lab: NetworkLab
  /** The two guests, with the settings of their latest `attach`. */
  a: GuestNetwork
  b: GuestNetwork
  readonly inA: string
  readonly inB: string
  /** The network that `open` has started. */
  network!: AgentNetwork
  book!: AgentNetwork

  /** @param stateDir see `openAddressBook` */
  constructor(
    prefix: string,
    private readonly stateDir = '',
  ) {
    this.lab = new NetworkLab(prefix)
    this.a = this.lab.guest(11)
    this.b = this.lab.guest(12)
    this.inA = this.lab.namespaceOf(this.a)
    this.inB = this.lab.namespaceOf(this.b)
  }

  async open(): Promise<void> {
    const { lab, a, b } = this
    lab.build()
    this.network = lab.agent()
    await this.network.ensure([a, b])
    this.book = openAddressBook(lab, this.stateDir)
    for (const guest of [a, b]) {
      await runGuest(lab, this.book, guest)
      await this.attach(guest)
    }
    await lab.serve(lab.client, 'client', 'tcp:80', 'udp:53')
    await lab.serve(lab.host, 'host', 'tcp:8080')
    await waitFor(() => lab.ask(this.inA, `tcp:${clientAddress}:80`), { what: 'an answer from the client outside' })
  }

  async attach(guest: GuestNetwork): Promise<void> {
    await this.network.call('attach', guest)
    await this.book.call('attach', guest)
  }

  /** Changes the given settings of the address pools. Other settings stay unchanged. */
  routing(change: object): Promise<RoutingState> {
    return this.book.call('setRouting', change) as Promise<RoutingState>
  }

  readRouting(): Promise<RoutingState> {
    return this.book.call('getRouting') as Promise<RoutingState>
  }

  ipv6Status(): Promise<Ipv6Status> {
    return this.book.call('status') as Promise<Ipv6Status>
  }

  /** Compares the host with the configured addresses, as the agent does periodically. @returns what was repaired */
  repairs(): Promise<string[]> {
    return this.book.call('ensure') as Promise<string[]>
  }

  /** Runs ip(8) on the host. @returns its output */
  show(...args: string[]): string {
    return this.lab.in(this.lab.host, 'ip', ...args)
  }
}
