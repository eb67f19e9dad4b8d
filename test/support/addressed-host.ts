import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import type { ServiceError } from '@grpc/grpc-js'
import type { Guest, GuestSpec } from '../../proto/gen/berth/agent/v1/guest.js'
import type {
  GetRoutingResponse,
  GuestSettingsServiceClient,
  RoutingServiceClient,
} from '../../proto/gen/berth/agent/v1/network.js'
import type { OperationServiceClient } from '../../proto/gen/berth/agent/v1/operation.js'
import { call, createGuest, createRequest, operationDone, powerOrder, submit } from './agent-calls.js'
import { AgentProcess } from './agent-process.js'
import { installBusyboxImage } from './busybox-image.js'
import { PublicSegment } from './public-segment.js'
import { sh } from './sh.js'
import { waitFor } from './wait.js'
import { WatchedHost } from './watched-host.js'

const tag = 'ad'
export const bridge = `btest-${tag}`
export const [hostAddress, outside] = ['198.18.7.1', '198.18.7.2']
export const [hostAddress6, outside6] = ['2001:db8:7::1', '2001:db8:7::2']
/** Routed to the host. */
export const guestPrefix = '2001:db8:7:1::'
const forwarding = 'net.ipv6.conf.all.forwarding'
const packets = fileURLToPath(new URL('packets.py', import.meta.url))

/** An agent with guests of BusyBox that have public addresses; the public segment is a veth pair into a namespace. */
export class AddressedHost {
  readonly segment = new PublicSegment('btestpub', {
    ...{ host: hostAddress, outside, host6: hostAddress6, outside6 },
  })
  readonly uplink = this.segment.uplink
  agent!: AgentProcess
  settings!: GuestSettingsServiceClient
  watched!: WatchedHost
  #operations!: OperationServiceClient
  #routing!: RoutingServiceClient
  #forwardedBefore = '0'
  #nextId = 1
  readonly #children: ChildProcess[] = []

  async open(): Promise<void> {
    this.#forwardedBefore = sh('sysctl', '-n', forwarding).trim()
    this.segment.make()
    this.segment.ip('route', 'add', `${guestPrefix}/64`, 'via', hostAddress6)
    this.agent = await AgentProcess.create(tag, { lxc: { stop_timeout_seconds: 1 } })
    await this.agent.start()
    await this.agent.ready()
    await this.agent.kill('SIGTERM')
    await installBusyboxImage(join(this.agent.directory, 'pool'), 'debian-12')
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

  /** Of clients; the agent may be dead by now. */
  disconnect(): void {
    for (const client of [this.#operations, this.settings, this.#routing, this.watched]) client?.close()
  }

  poolItem = (address: string) => ({ address, interface: this.uplink, prefixLen: 24, gateway: '' })
  prefixItem = (prefix: string) => ({
    ...{ interface: this.uplink, address: '', prefix, prefixLen: 64, gateway: '' },
  })

  /** Sets what is named, and leaves the rest. */
  setRouting(change: Partial<Parameters<RoutingServiceClient['setRouting']>[0]>) {
    const unsent = { ipv4Pool: undefined, ipv6Prefixes: undefined, nat4Ports: undefined }
    return call(this.#routing.setRouting.bind(this.#routing), { ...unsent, ...change })
  }

  readRouting(): Promise<GetRoutingResponse> {
    return call(this.#routing.getRouting.bind(this.#routing), {})
  }

  /** @returns its uuid, or the code of the refusal */
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
    return waitFor(() => this.watched.guests().find((item) => item.uuid === uuid))
  }

  /** The guest's end is in its own network. */
  async deviceOf(uuid: string): Promise<string> {
    return `x${tag}${(await this.guest(uuid)).id}`
  }

  async pidOf(uuid: string): Promise<string> {
    const name = `x${tag}-${(await this.guest(uuid)).id}`
    return sh('lxc-info', '-P', join(this.agent.directory, 'state/lxc'), '-n', name, '-p', '-H').trim()
  }

  /** Answer to packets.py in the guest's network, or, without, in the segment. */
  ask(pid: string | undefined, ...target: string[]): string {
    return sh('nsenter', ...this.#toolArgs(pid, 'ask', ...target)).trim()
  }

  /** From the segment. */
  isReached(address: string): boolean {
    return this.ask(undefined, 'tcp', address, '8081', '0', '0.3') !== ''
  }

  async serve(pid: string | undefined, name: string): Promise<void> {
    const child = spawn('nsenter', this.#toolArgs(pid, 'serve', name, 'tcp:8081', 'udp:8081'), {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    this.#children.push(child)
    await new Promise((resolve) => child.stdout.once('data', resolve))
  }

  /** Asks without end from the segment. @returns a line for each datagram, ` 1` at its end where it was answered */
  async follow(address: string): Promise<string[]> {
    const args = this.#toolArgs(undefined, 'stream', address, '0.01', '8081')
    const child = spawn('nsenter', args, { stdio: ['ignore', 'pipe', 'inherit'] })
    this.#children.push(child)
    const lines: string[] = []
    const source = createInterface({ input: child.stdout })
    await once(source, 'line')
    source.on('line', (line) => lines.push(line))
    return lines
  }

  #toolArgs(pid: string | undefined, ...args: string[]): string[] {
    const network = pid === undefined ? `/run/netns/${this.segment.name}` : `/proc/${pid}/ns/net`
    return [`--net=${network}`, '/usr/bin/python3', packets, ...args]
  }
}
