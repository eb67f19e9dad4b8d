import { expect } from 'chai'
import type { Guest } from '../../../proto/gen/berth/agent/v1/guest.js'
import { ConsoleClient, type ConsoleClientOptions } from './console-client.js'
import type { MemoryTerminal } from '../memory/memory-consoles.js'
import { startTestGateway, type TestGateway, type TestGatewayOptions } from './test-gateway.js'
import { waitFor } from '../wait.js'

export const ownProtocol = 'berth.console.v1'

export interface TicketOptions {
  readonly kind?: 'ssh' | 'vnc'
  readonly key?: string
  /** Headers for the request for a ticket, which identify the caller. Default: the administrator's API key. */
  readonly as?: Record<string, string>
}

/** A gateway with one agent. The terminals of its guests are simulated. */
export class ConsoleLab {
  readonly #clients: ConsoleClient[] = []
  /** Number of ms by which the gateway's clock is ahead when it checks tickets. */
  aheadMs = 0

  private constructor(readonly gateway: TestGateway) {}

  static async start(options: TestGatewayOptions = {}): Promise<ConsoleLab> {
    // Heavy console output can delay the agent's messages. The host must stay online during such a delay.
    const settings = { reconnectMs: 60_000, ...options, now: () => Date.now() + lab.aheadMs }
    const lab: ConsoleLab = new ConsoleLab(await startTestGateway(settings))
    return lab
  }

  get agent() {
    return this.gateway.fleet.agentOf('host-a')
  }

  get consoles() {
    return this.agent.host.consoles
  }

  /** Adds a running guest with a unique name. */
  addGuest(fields: { status?: 'stopped'; virtualization?: 'kvm' } = {}): Promise<Guest> {
    return this.gateway.fleet.addGuest(fields)
  }

  async ticket(container: string, { kind = 'ssh', key, as }: TicketOptions = {}): Promise<string> {
    const { status, body, text } = await this.gateway.request('POST', `/${kind}-ticket`, {
      body: { container_name: container },
      ...(key === undefined ? {} : { key }),
      ...(as && { key: '', headers: as }),
    })
    expect(status, text).to.equal(200)
    expect(body.data).to.have.all.keys('ticket', 'expires_in')
    return body.data.ticket as string
  }

  /** Opens a socket with exactly these options. */
  connect(path: string, options: ConsoleClientOptions = {}): ConsoleClient {
    const client = ConsoleClient.open(this.gateway.url + path, options)
    this.#clients.push(client)
    return client
  }

  /** Requests a new ticket and opens a console with it, as a client of berth.console.v1. */
  async open(
    container: string,
    { kind = 'ssh', key, as, query = {}, protocols, ...rest }: TicketOptions & ConsoleClientOptions = {},
  ): Promise<ConsoleClient> {
    const ticket = await this.ticket(container, { kind, ...(key === undefined ? {} : { key }), ...(as && { as }) })
    return this.connect(`/api/v1/${kind}`, {
      protocols: protocols ?? [ownProtocol, `berth-ticket.${ticket}`],
      query: { container, ...query },
      ...(as && { headers: { cookie: as['cookie'] ?? '' } }),
      ...rest,
    })
  }

  /** Returns the newest terminal of a guest. */
  terminal({ uuid }: Guest): MemoryTerminal {
    return this.consoles.terminals.findLast(({ guestUuid }) => guestUuid === uuid)!
  }

  /** Opens a console and waits until it is ready. */
  async opened(guest: Guest, options: Parameters<ConsoleLab['open']>[1] = {}) {
    const client = await this.open(guest.name, options)
    const status = await client.ready()
    return { client, status, terminal: this.terminal(guest) }
  }

  /** Closes all consoles of a test. Resolves when the gateway has no console any more. */
  async endAll(): Promise<void> {
    for (const { socket } of this.#clients.splice(0)) socket.terminate()
    this.consoles.holder.closeAll()
    await waitFor(() => this.gateway.api.consoles.size === 0, { what: 'no consoles' })
  }

  async close(): Promise<void> {
    await this.endAll()
    await this.gateway.close()
  }
}
