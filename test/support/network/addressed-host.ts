import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import type { ServiceError } from '@grpc/grpc-js'
import type { Guest, GuestSpec } from '../../../proto/gen/berth/agent/v1/guest.js'
import type {
  GetRoutingResponse,
  GuestSettingsServiceClient,
  RoutingServiceClient,
} from '../../../proto/gen/berth/agent/v1/network.js'
import type { OperationServiceClient } from '../../../proto/gen/berth/agent/v1/operation.js'
import { call, createGuest, createRequest, operationDone, powerOrder, submit } from '../host/agent-calls.js'
import { AgentProcess } from '../host/agent-process.js'
import { inContainer, inMachine, installTools, lxc, machineAt, type GuestKind } from '../guests/guest-kinds.js'
import { PublicSegment } from './public-segment.js'
import { sh } from '../sh.js'
import { waitFor } from '../wait.js'
import { WatchedHost } from '../host/watched-host.js'

const tag = 'ad'
export const bridge = `btest-${tag}`
export const [hostAddress, outside] = ['198.18.7.1', '198.18.7.2']
export const [hostAddress6, outside6] = ['2001:db8:7::1', '2001:db8:7::2']
/** An IPv6 prefix that is routed to the host. */
export const guestPrefix = '2001:db8:7:1::'
const forwarding = 'net.ipv6.conf.all.forwarding'
const packets = fileURLToPath(new URL('packets.py', import.meta.url))

/** An agent with BusyBox guests that have public addresses. The public network is a veth pair into a namespace. */
export class AddressedHost {
  readonly segment = new PublicSegment('btestpub', { host: hostAddress, outside, host6: hostAddress6, outside6 })
  readonly uplink = this.segment.uplink
  agent!: AgentProcess
  settings!: GuestSettingsServiceClient
  watched!: WatchedHost
  #operations!: OperationServiceClient
  #routing!: RoutingServiceClient
  #forwardedBefore = '0'
  #nextId = 1
  readonly #children: ChildProcess[] = []

  /** @param kinds kinds of the guests that will be created */
  constructor(private readonly kinds: readonly GuestKind[] = [lxc]) {}

  async open(): Promise<void> {
    this.#forwardedBefore = sh('sysctl', '-n', forwarding).trim()
    this.segment.make()
    this.segment.ip('route', 'add', `${guestPrefix}/64`, 'via', hostAddress6)
    this.agent = await AgentProcess.create(tag, { lxc: { stop_timeout_seconds: 1 } })
    await this.agent.start()
    await this.agent.ready()
    await this.agent.kill('SIGTERM')
    for (const kind of this.kinds) await kind.installImage(join(this.agent.directory, 'pool'))
    await this.start()
  }

  async destroy(): Promise<void> {
    for (const child of this.#children) child.kill('SIGKILL')
    this.disconnect()
    await this.agent?.destroy()
    this.segment.remove()
    sh('sysctl', '-qw', `${forwarding}=${this.#forwardedBefore}`)
  }

  async start(): Promise<void> {
    const { agent } = this
    await agent.start()
    await agent.ready()
    this.#operations = agent.operations()
    this.settings = agent.settings()
    this.#routing = agent.routing()
    this.watched = new WatchedHost(agent.watch())
  }

  /** Closes the clients, even if the agent is dead. */
  disconnect(): void {
    for (const client of [this.#operations, this.settings, this.#routing, this.watched]) client?.close()
  }

  poolItem = (address: string) => ({ address, interface: this.uplink, prefixLen: 24, gateway: '' })
  prefixItem = (prefix: string) => ({ interface: this.uplink, address: '', prefix, prefixLen: 64, gateway: '' })

  /** Changes only those settings of the address pools that `change` contains. */
  setRouting(change: Partial<Parameters<RoutingServiceClient['setRouting']>[0]>) {
    const unsent = { ipv4Pool: undefined, ipv6Prefixes: undefined, nat4Ports: undefined, isChecked: false }
    return call(this.#routing.setRouting.bind(this.#routing), { ...unsent, ...change })
  }

  readRouting(): Promise<GetRoutingResponse> {
    return call(this.#routing.getRouting.bind(this.#routing), {})
  }

  /** Creates a guest. @returns its UUID, or the code of the refusal */
  async create(spec: Partial<GuestSpec>): Promise<string> {
    const id = this.#nextId++
    const request = createRequest(id, `guest-${id}`, { assignNat: false, portMappings: [], ...spec })
    try {
      const { operation } = await createGuest(this.#operations, request)
      await operationDone(this.#operations, operation!.id)
      return request.uuid
    } catch (error) {
      return String((error as ServiceError).metadata?.get('berth-code')[0] ?? error)
    }
  }

  async power(action: 'restart' | 'delete', uuid: string): Promise<void> {
    const { operation } = await submit(this.#operations, powerOrder(action, uuid))
    await operationDone(this.#operations, operation!.id)
  }

  guest(uuid: string): Promise<Guest> {
    return waitFor(() => this.watched.guests().find((item) => item.uuid === uuid), {
      what: `the guest ${uuid}`,
    })
  }

  /** Returns the guest's interface on the host. The other end is inside the guest. */
  async deviceOf(uuid: string): Promise<string> {
    return `x${tag}${(await this.guest(uuid)).id}`
  }

  /** Returns the pid of a container's first process. */
  async pidOf(uuid: string): Promise<string> {
    return this.#initOf((await this.guest(uuid)).id)
  }

  /** Asks a target with packets.py, from the guest's network. Without a guest, it asks from the public network. */
  ask(uuid: string | undefined, ...target: string[]): string {
    const [program = '', ...args] = this.#tool(uuid, 'ask', ...target)
    return sh(program, ...args).trim()
  }

  /** Like `ask`, but for a request that must be answered. Waits for a minute, because the machine may be busy. */
  answer(uuid: string | undefined, protocol: string, address: string, port: string): string {
    return this.ask(uuid, protocol, address, port, '0', '60')
  }

  /** True if a client in the public network reaches the address. */
  isReached(address: string): boolean {
    return this.ask(undefined, 'tcp', address, '8081', '0', '0.3') !== ''
  }

  /** Starts a server, which runs until its guest stops. If `uuid` is undefined, it runs in the public network. */
  async serve(uuid: string | undefined, name: string): Promise<void> {
    // Waits for the guest, which the agent reports to its watchers a moment after the creation has ended.
    if (uuid !== undefined) await this.guest(uuid)
    if (uuid !== undefined && this.#isMachine(uuid)) await installTools(machineAt(this.#found(uuid).ipv4))
    const child = this.#spawn(this.#tool(uuid, 'serve', name, 'tcp:8081', 'udp:8081'))
    await once(child.stdout!, 'data')
  }

  /** Sends requests endlessly from the public network. @returns a line per datagram, ending with ` 1` if answered */
  async follow(address: string): Promise<string[]> {
    const child = this.#spawn(this.#tool(undefined, 'stream', address, '0.01', '8081'))
    const lines: string[] = []
    const source = createInterface({ input: child.stdout! })
    await once(source, 'line')
    source.on('line', (line) => lines.push(line))
    return lines
  }

  #spawn([program = '', ...args]: readonly string[]): ChildProcess {
    const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'inherit'] })
    this.#children.push(child)
    return child
  }

  #tool(uuid: string | undefined, ...args: string[]): string[] {
    const at = uuid === undefined ? this.segment.at : this.#placeOf(uuid)
    return [...at, '/usr/bin/python3', packets, ...args]
  }

  #placeOf(uuid: string): string[] {
    const { id, ipv4 } = this.#found(uuid)
    return this.#isMachine(uuid) ? inMachine(machineAt(ipv4)) : inContainer(this.#initOf(id))
  }

  #isMachine(uuid: string): boolean {
    return this.#found(uuid).virtualization === 'kvm'
  }

  #found(uuid: string): Guest {
    return this.watched.guests().find((guest) => guest.uuid === uuid)!
  }

  #initOf(id: number): string {
    const place = ['-P', join(this.agent.directory, 'state/lxc'), '-n', `x${tag}-${id}`]
    return sh('lxc-info', ...place, '-p', '-H').trim()
  }
}
