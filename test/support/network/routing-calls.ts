import { expect } from 'chai'
import type { Body } from '../body.js'
import type { Reply, TestGateway } from '../gateway/test-gateway.js'

/** Makes an address of a public pool, as the API shows it. */
export const poolAddress = (last: number) => ({
  address: `203.0.113.${last}`,
  interface: 'eth0',
  prefix_len: 24,
  gateway: '203.0.113.1',
})
export const poolPrefix = {
  interface: 'eth0',
  address: '2001:db8:1::1',
  prefix: '2001:db8:1::',
  prefix_len: 64,
  gateway: 'fe80::1',
}

export class RoutingClient {
  constructor(private readonly gateway: TestGateway) {}

  /** @param query such as `?host_id=…` */
  put(body: unknown, query = ''): Promise<Reply> {
    return this.gateway.request('PUT', `/routing${query}`, { body })
  }

  async get(query = ''): Promise<Body> {
    const { body } = await this.gateway.request('GET', `/routing${query}`)
    return (body as { data: Body }).data
  }

  /** Removes all containers and empties the pools of all hosts before the next test of a gateway. */
  async clear(): Promise<void> {
    const { fleet } = this.gateway
    await fleet.removeGuests()
    const nat4_port_range = { start: 20_000, end: 59_999 }
    for (const hostId of fleet.agents.keys()) {
      const reply = await this.put({ items: [], ipv6_prefixes: [], nat4_port_range }, `?host_id=${hostId}`)
      expect(reply.status, reply.text).to.equal(200)
    }
  }

  /** Requests the creation of a container with these fields. */
  create(body: object): Promise<Reply> {
    return this.gateway.request('POST', '/containers', { body: { template_id: 'debian-12', ...body } })
  }
}
