import type { Body } from './body.js'
import type { Reply, TestGateway } from './test-gateway.js'

/** Of a public pool, as the API has it. */
export const poolAddress = (last: number) => ({
  ...{ address: `203.0.113.${last}`, interface: 'eth0', prefix_len: 24, gateway: '203.0.113.1' },
})
export const poolPrefix = {
  ...{
    interface: 'eth0',
    address: '2001:db8:1::1',
    prefix: '2001:db8:1::',
    prefix_len: 64,
    gateway: 'fe80::1',
  },
}

export class RoutingClient {
  constructor(private readonly gateway: TestGateway) {}

  /** @param query as `?host_id=…` */
  put(body: unknown, query = ''): Promise<Reply> {
    return this.gateway.request('PUT', `/routing${query}`, { body })
  }

  async get(query = ''): Promise<Body> {
    const { body } = await this.gateway.request('GET', `/routing${query}`)
    return (body as { data: Body }).data
  }

  /** A container with what is named. */
  create(body: object): Promise<Reply> {
    return this.gateway.request('POST', '/containers', { body: { template_id: 'debian-12', ...body } })
  }
}
