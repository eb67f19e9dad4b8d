import type { Body } from '../body.js'
import type { LabAgent } from '../memory/lab-agent.js'
import { startTestGateway, type Reply, type TestGateway } from './test-gateway.js'

/** Address that the guest `bad-guest` attacks. */
export const target = '198.51.100.9'

interface LabGuest {
  readonly uuid: string
  readonly id: number
  readonly name: string
}

/** A gateway and an agent with two guests. Tests set the agent's clock, and request its checks of guests. */
export class SecurityLab {
  gateway!: TestGateway
  agent!: LabAgent
  guest!: LabGuest
  /** The guest named `good-guest`. */
  other!: LabGuest
  /** IPv4 address of `bad-guest`. */
  address = ''
  clockMs = Date.now()

  async start(): Promise<void> {
    this.gateway = await startTestGateway({ agentConfig: { security: { interval_seconds: 60 } } })
    const { fleet } = this.gateway
    await fleet.work('host-a')
    this.guest = await fleet.addGuest({ name: 'bad-guest' })
    this.other = await fleet.addGuest({ name: 'good-guest' })
    this.agent = fleet.agentOf('host-a')
    this.agent.now = () => this.clockMs
    this.address = this.agent.guests().find(({ uuid }) => uuid === this.guest.uuid)!.ipv4
  }

  close(): Promise<void> {
    return this.gateway.close()
  }

  call = (method: 'GET' | 'POST' | 'PUT', path: string, options = {}): Promise<Reply> =>
    this.gateway.request(method, path, options)
  read = async (path: string): Promise<Body> => (await this.call('GET', path)).body.data
  alerts = async (query = ''): Promise<Body[]> => (await this.read(`/security/alerts${query}`)) as Body[]
  newest = async (): Promise<Body> => (await this.alerts())[0]!
  check = (): Promise<Reply> => this.call('POST', '/security/check')
  shutdown = (on: boolean): Promise<Reply> => this.call('PUT', '/security/settings', { body: { auto_shutdown: on } })
  guestRow = (): Promise<Body> => this.read(`/containers/${this.guest.id}`)

  /** Lets `bad-guest` scan ports and the agent check the guest, often enough to make its alert critical. */
  becomeCritical = async (): Promise<void> => {
    for (let look = 0; look < 3; look++) {
      this.clockMs += 10_000
      this.agent.host.sensor.scanPorts(this.address, target, 1000)
      await this.check()
    }
  }
}
