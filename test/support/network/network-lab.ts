import { execFileSync, spawn, type ChildProcess } from 'node:child_process'
import { existsSync, readdirSync } from 'node:fs'
import { createInterface, type Interface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { AgentConfigSchema, type AgentConfig } from '../../../agent/config.js'
import type { GuestNetwork, NatMapping } from '../../../agent/network/contract.js'
import { deviceName } from '../../../agent/network/addresses/private-ipv4.js'
import { formatIpv4, macOf, parseSubnet, type Subnet } from '../../../agent/network/subnet.js'
import { validateConfig } from '../../../shared/config.js'
import { removeNamespace } from '../kill.js'
import { nodeArguments } from '../programs.js'

const defaults = validateConfig(AgentConfigSchema, {}, 'test')

const packets = fileURLToPath(new URL('packets.py', import.meta.url))

/** IPv4 addresses of the public segment between host and client (RFC 5737). */
export const hostAddress = '198.51.100.1'
export const clientAddress = '198.51.100.2'
/** IPv6 addresses of the public segment between host and client (RFC 3849). */
export const hostAddress6 = '2001:db8:51::1'
export const clientAddress6 = '2001:db8:51::2'
/** A prefix that the client routes to the host. */
export const guestPrefix6 = '2001:db8:77::'

export interface LabAgentOptions {
  /** If true, the agent watches for changes by other programs, and repairs them at once. */
  readonly watches?: boolean
  /** If true, the agent also counts traffic between guests of the host. */
  readonly countInternal?: boolean
}

/**
 * A host, a client outside and guests, each in a network namespace. LXC is not used, because the agent's network needs
 * only the namespace and the interface of a guest. All names begin with a prefix of the test.
 */
export class NetworkLab {
  readonly #children: ChildProcess[] = []
  readonly config: AgentConfig['network']
  readonly host: string
  readonly client: string

  readonly #subnet: Subnet

  /** @param other settings that replace defaults. Do not call `build` for a second agent on another lab's host. */
  constructor(
    private readonly prefix: string,
    other: Partial<AgentConfig['network']> = {},
  ) {
    this.host = `${prefix}-host`
    this.client = `${prefix}-client`
    this.config = {
      bridge: 'berth0',
      table: 'berth',
      interface_prefix: 'bt',
      subnet: '10.77.0.0/24',
      subnet6: 'fd77::/64',
      nat_ports: { start: 20000, end: 29999, per_guest: 4000 },
      uplinks: ['up0'],
      closed_destinations: defaults.network.closed_destinations,
      resolvers: [],
      shared_pools: [],
      ...other,
    }
    this.#subnet = parseSubnet(this.config.subnet)
  }

  build(): void {
    this.remove()
    for (const name of [this.host, this.client]) this.#addNamespace(name)
    this.in(this.host, 'ip', 'link', 'add', 'up0', 'type', 'veth', 'peer', 'name', 'eth0', 'netns', this.client)
    for (const [name, device, address, address6] of [
      [this.host, 'up0', hostAddress, hostAddress6],
      [this.client, 'eth0', clientAddress, clientAddress6],
    ] as const) {
      this.in(name, 'ip', 'address', 'add', `${address}/24`, 'dev', device)
      this.in(name, 'ip', 'address', 'add', `${address6}/64`, 'dev', device, 'nodad')
      this.in(name, 'ip', 'link', 'set', device, 'up')
    }
    this.in(this.host, 'ip', 'route', 'add', 'default', 'via', clientAddress)
    this.in(this.host, 'sysctl', '-qw', 'net.ipv6.conf.all.forwarding=1')
    this.in(this.host, 'ip', 'route', 'add', 'default', 'via', clientAddress6)
    this.in(this.client, 'ip', 'route', 'add', `${guestPrefix6}/64`, 'via', hostAddress6)
  }

  /** Kills all processes in the namespaces, including those of an earlier run, and removes the namespaces. */
  remove(): void {
    for (const child of this.#children) child.kill('SIGKILL')
    const names = existsSync('/run/netns') ? readdirSync('/run/netns') : []
    for (const name of names) {
      if (!name.startsWith(`${this.prefix}-`)) continue
      removeNamespace(name)
    }
  }

  /** Describes a guest as the agent does. @param index determines its id and address */
  guest(index: number, portMappings: readonly NatMapping[] = [], more: Partial<GuestNetwork> = {}): GuestNetwork {
    const ipv4 = formatIpv4(this.#subnet.first - 2 + index)
    const device = deviceName(this.config.interface_prefix, index)
    const none = { publicIpv4s: [], ipv6Addresses: [] }
    return { uuid: `guest-${index}`, device, mac: macOf(ipv4), ipv4, portMappings, ...none, ...more }
  }

  namespaceOf(guest: GuestNetwork): string {
    return `${this.prefix}-${guest.device}`
  }

  /** Creates the guest's namespace and veth, as a driver does. */
  plug(guest: GuestNetwork): void {
    const name = this.namespaceOf(guest)
    this.#addNamespace(name)
    this.in(this.host, 'ip', 'link', 'add', guest.device, 'type', 'veth', 'peer', 'name', 'eth0', 'netns', name)
    this.in(name, 'ip', 'link', 'set', 'eth0', 'address', guest.mac, 'up')
    this.in(name, 'ip', 'address', 'add', `${guest.ipv4}/24`, 'dev', 'eth0')
    this.in(name, 'ip', 'route', 'add', 'default', 'via', this.#subnet.gateway)
    this.in(this.host, 'ip', 'link', 'set', guest.device, 'master', this.config.bridge, 'up')
    for (const address of guest.ipv6Addresses) this.#plugIpv6(guest, address)
    for (const address of guest.publicIpv4s)
      this.in(this.host, 'ip', 'address', 'replace', `${address}/32`, 'dev', 'up0')
  }

  /** Configures an address as the agent does: route and neighbour on the host, address and route in the guest. */
  #plugIpv6({ mac, ...guest }: GuestNetwork, address: string): void {
    const { bridge } = this.config
    const name = `${this.prefix}-${guest.device}`
    this.in(this.host, 'ip', 'address', 'replace', 'fe80::1/64', 'dev', bridge, 'nodad')
    this.in(this.host, 'ip', 'route', 'replace', `${address}/128`, 'dev', bridge)
    const neighbour = ['replace', address, 'lladdr', mac, 'dev', bridge, 'nud', 'permanent']
    this.in(this.host, 'ip', 'neighbour', ...neighbour)
    this.in(name, 'ip', 'address', 'replace', `${address}/128`, 'dev', 'eth0', 'nodad')
    this.in(name, 'ip', '-6', 'route', 'replace', 'default', 'via', 'fe80::1', 'dev', 'eth0')
  }

  unplug(guest: GuestNetwork): void {
    const name = this.namespaceOf(guest)
    this.in(this.host, 'ip', 'link', 'delete', guest.device)
    removeNamespace(name)
  }

  /** Runs a command inside a namespace. @returns its output */
  in(name: string, program: string, ...args: string[]): string {
    return execFileSync('ip', ['netns', 'exec', name, program, ...args], {
      stdio: 'pipe',
      maxBuffer: 64 * 1024 * 1024,
    }).toString()
  }

  /** Runs a tool of packets.py inside a namespace. @returns its output */
  tool(name: string, ...args: string[]): string {
    return this.in(name, '/usr/bin/python3', packets, ...args).trim()
  }

  /** Sends a request. @returns the server's name and the client address that it saw; empty without an answer */
  ask(name: string, target: string, options: { sport?: number; timeoutSeconds?: number } = {}): string {
    const [, protocol = '', host = '', port = ''] = /^(\w+):(.*):(\d+)$/.exec(target) ?? []
    const { sport = 0, timeoutSeconds = 1 } = options
    return this.tool(name, 'ask', protocol, host, port, String(sport), String(timeoutSeconds))
  }

  /** Like `ask`, but for a request that must be answered. Waits for a minute, because the machine may be busy. */
  answer(name: string, target: string, options: { sport?: number } = {}): string {
    return this.ask(name, target, { ...options, timeoutSeconds: 60 })
  }

  /** Tests targets simultaneously: tcp,HOST,PORT udp,HOST,PORT icmp,HOST. @returns whether each one answers */
  probe(name: string, targets: readonly string[]): boolean[] {
    return [...this.tool(name, 'probe', ...targets)].map((digit) => digit === '1')
  }

  /** Starts a tool of packets.py that runs until the lab is removed. @returns its output lines, a growing list */
  async follow(namespace: string, ...args: string[]): Promise<string[]> {
    const lines: string[] = []
    const source = await this.#lines(namespace, ...args)
    source.on('line', (line) => lines.push(line))
    return lines
  }

  /** Starts a server that runs until the lab or its namespace is removed. */
  async serve(namespace: string, name: string, ...ports: string[]): Promise<void> {
    await this.#lines(namespace, 'serve', name, ...ports)
  }

  /** Collects the markers of frames that arrive at a device. */
  async sniff(namespace: string, device: string): Promise<Set<string>> {
    const seen = new Set<string>()
    const lines = await this.#lines(namespace, 'sniff', device)
    lines.on('line', (line) => seen.add(line))
    return seen
  }

  /** Starts the agent's network in the host's namespace. */
  agent(options: LabAgentOptions = {}): AgentNetwork {
    const source = 'test/support/network/network-main.ts'
    const script = nodeArguments(source, JSON.stringify(this.config), JSON.stringify(options))
    const child = spawn('ip', ['netns', 'exec', this.host, process.execPath, ...script], {
      stdio: ['pipe', 'pipe', 'inherit'],
    })
    this.#children.push(child)
    return new AgentNetwork(child)
  }

  /** Starts the agent's abuse monitor in the host's namespace. @param security settings of agent.yaml */
  abuseWatch(security: object = {}): AgentNetwork {
    const source = 'test/support/attacks/abuse-main.ts'
    const script = nodeArguments(source, JSON.stringify(this.config), JSON.stringify(security))
    const child = spawn('ip', ['netns', 'exec', this.host, process.execPath, ...script], {
      stdio: ['pipe', 'pipe', 'inherit'],
    })
    this.#children.push(child)
    return new AgentNetwork(child)
  }

  /** Starts a program inside a namespace. The program ends with the lab at the latest. */
  run(namespace: string, program: string, ...args: string[]): ChildProcess {
    const child = spawn('ip', ['netns', 'exec', namespace, program, ...args], { stdio: 'ignore' })
    this.#children.push(child)
    return child
  }

  #addNamespace(name: string): void {
    execFileSync('ip', ['netns', 'add', name])
    this.in(name, 'ip', 'link', 'set', 'lo', 'up')
  }

  /** Starts a tool. Resolves when the tool has reported that it is ready. */
  async #lines(namespace: string, ...args: string[]): Promise<Interface> {
    const command = ['netns', 'exec', namespace, '/usr/bin/python3', packets, ...args]
    const child = spawn('ip', command, { stdio: ['ignore', 'pipe', 'inherit'] })
    this.#children.push(child)
    const lines = createInterface({ input: child.stdout })
    await new Promise((resolve, reject) => {
      lines.once('line', resolve)
      child.once('exit', () => reject(new Error(`${args.join(' ')} ended`)))
    })
    return lines
  }
}

/** Sends calls to a process such as network-main.ts, one call at a time. */
export class AgentNetwork {
  readonly #answers: AsyncIterator<string>

  constructor(readonly child: ChildProcess) {
    this.#answers = createInterface({ input: child.stdout! })[Symbol.asyncIterator]()
  }

  async call(method: string, argument?: unknown): Promise<unknown> {
    this.child.stdin!.write(`${JSON.stringify({ method, argument })}\n`)
    const answer = await this.#answers.next()
    if (answer.done) throw new Error('the process ended')
    const { result, error } = JSON.parse(answer.value) as { result?: unknown; error?: string }
    if (error !== undefined) throw new Error(error)
    return result
  }

  ensure(guests: readonly GuestNetwork[]): Promise<string[]> {
    return this.call('ensure', guests) as Promise<string[]>
  }

  async end(): Promise<void> {
    await this.call('close')
    const ended = new Promise((resolve) => this.child.once('exit', resolve))
    this.child.stdin!.end()
    await ended
  }
}
