import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, mkdirSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { parse } from 'yaml'
import { FleetHost } from '../host/fleet-host.js'
import { GatewayProcess, shareState } from '../gateway/gateway-process.js'
import { RedisLab } from '../gateway/redis-lab.js'
import { WebhookReceiver } from '../gateway/webhook-receiver.js'
import { memoryDirectory } from '../memory/lab-agent.js'
import { exampleProxyConfig } from '../network/balanced-lab.js'
import { nodeArguments } from '../programs.js'
import { scratchDirectory } from '../scratch.js'
import { waitFor } from '../wait.js'
import { FailoverNetwork, observer, type FailoverMachine } from './failover-network.js'
import { LabClient } from './lab-client.js'
import type { AgentsReport, LabAgentOrder } from './lab-agents.js'

export interface FailoverLabOptions {
  /** Number of agents in memory. */
  readonly agents: number
  /** Number of hosts with a real agent and LXC. */
  readonly realHosts: number
}

export interface LabGateway {
  readonly host: string
  readonly process: GatewayProcess
  readonly namespace: string
  /** Sends requests directly to this gateway. */
  readonly client: LabClient
}

/** Number of guests that each agent in memory has from the beginning. */
export const seededGuests = 10
const gatewayPort = 8080
const agentPort = 7443

/**
 * Three gateways behind HAProxy with the documented configuration, three machines with a Redis server and a Sentinel
 * each, agents in memory, and hosts with real agents. Each machine is a network namespace.
 */
export class FailoverLab {
  readonly network = new FailoverNetwork()
  readonly gateways: LabGateway[] = []
  readonly hosts: { readonly id: string; readonly real: FleetHost | undefined }[] = []
  readonly #directory = mkdtempSync(join(memoryDirectory, 'btest-failover-lab-'))
  readonly #scratch = scratchDirectory('btest-failover-lab')
  #stopping: Promise<void> | undefined
  #redis!: RedisLab
  #proxy!: FailoverMachine
  #agents!: FailoverMachine
  #agentProcess: ChildProcess | undefined
  #proxyProcess: ChildProcess | undefined
  /** Sends requests through HAProxy. */
  client!: LabClient
  receiver!: WebhookReceiver

  private constructor(private readonly options: FailoverLabOptions) {}

  static async start(options: FailoverLabOptions): Promise<FailoverLab> {
    const lab = new FailoverLab(options)
    try {
      lab.network.start()
      await lab.#startRedis()
      for (const number of [1, 2, 3]) await lab.#startGateway(number)
      await lab.#startProxy()
      await lab.#startAgents()
      for (let index = 1; index <= options.realHosts; index++) await lab.#startRealHost(index)
      await lab.#startReceiver()
      await lab.complete()
      return lab
    } catch (error) {
      await lab.stop()
      throw error
    }
  }

  get redis(): RedisLab {
    return this.#redis
  }

  /** Addresses of the groups of machines that a test can cut off. */
  get addresses() {
    const real = this.hosts.flatMap(({ real: host }) => (host ? [hostOf(host.address)] : []))
    return {
      proxy: [this.#proxy.host],
      agents: [this.#agents.host, ...real],
      redis: redisNumbers.map((number) => `192.0.2.${number}`),
      gateways: this.gateways.map(({ host }) => host),
      observer: [observer],
    }
  }

  /** Address of an agent in memory as host:port. */
  agentAddress(index: number): string {
    return `${this.#agents.host}:${agentPort + index}`
  }

  get adminKey(): string {
    return this.gateways[0]!.process.adminKey
  }

  /** State directory of the first gateway, which contains the certificate authority. */
  get stateDir(): string {
    return join(this.gateways[0]!.process.directory, 'state')
  }

  /** Waits until all gateways show all hosts as online. */
  async complete(): Promise<void> {
    for (const gateway of this.gateways)
      await waitFor(() => this.hasWholeView(gateway), { what: () => `all hosts online\n${gateway.process.logTail()}` })
  }

  /** True if a gateway shows all hosts as online and no guest as unknown. */
  async hasWholeView({ client }: LabGateway): Promise<boolean> {
    const hosts = await client.send('GET', '/hosts')
    if (hosts.status !== 200) return false
    const online = (hosts.body.data as { status: string }[]).filter(({ status }) => status === 'online')
    if (online.length !== this.hosts.length) return false
    const dashboard = await client.send('GET', '/dashboard')
    return dashboard.status === 200 && dashboard.body.data.unknown === 0
  }

  /** Does nothing after `stop`, because a trial that is interrupted may still restore a gateway. */
  startGateway({ process, namespace }: LabGateway): void {
    if (!this.#stopping) process.start(namespace)
  }

  async report(): Promise<AgentsReport> {
    const answer = once(this.#agentProcess!, 'message')
    this.#agentProcess!.send('report')
    return (await answer)[0] as AgentsReport
  }

  get proxyLog(): string {
    return readFileSync(join(this.#directory, 'haproxy.log'), 'utf8')
  }

  /** Stops everything once, even if it is called again. @param keep true: keeps the directories with logs and states */
  stop({ keep = false } = {}): Promise<void> {
    this.#stopping ??= this.#stopAll(keep)
    return this.#stopping
  }

  async #stopAll(keep: boolean): Promise<void> {
    this.network.heal()
    this.client?.close()
    await this.receiver?.down()
    this.#proxyProcess?.kill('SIGKILL')
    for (const { process, client } of this.gateways) {
      client.close()
      await process.kill('SIGKILL')
    }
    await endAgents(this.#agentProcess)
    for (const { real } of this.hosts) await real?.remove()
    await this.#redis?.stop()
    this.network.stop()
    if (keep) return console.log(`logs: ${this.#directory}`)
    rmSync(this.#directory, { recursive: true, force: true })
    this.#scratch.wipe()
  }

  async #startRedis(): Promise<void> {
    const machines = redisNumbers.map((number, index) => this.network.addMachine(`redis-${index}`, number))
    this.#redis = await RedisLab.start({ machines })
  }

  async #startGateway(number: number): Promise<void> {
    const { namespace, host } = this.network.addMachine(`gw-${number}`, number)
    const example = readFileSync('docs/examples/gateway-behind-haproxy.yaml', 'utf8')
    const config = parse(example.replaceAll(/(listen: )192\.0\.2\.1:/g, `$1${host}:`)) as object
    const directory = join(this.#directory, `gateway-${number}`)
    const process = await GatewayProcess.create(directory, host, {
      ...config,
      redis: this.#redis.config,
      agents: {},
      limits: unlimited,
      packages_dir: join(this.#directory, 'packages'),
      webhooks: { allow_http: true, allowed_targets: [observer] },
    })
    const [first] = this.gateways
    if (first) shareState(first.process, process)
    const key = (first?.process ?? process).adminKey
    const gateway = { host, process, namespace, client: new LabClient(`http://${host}:${gatewayPort}`, key) }
    this.gateways.push(gateway)
    this.startGateway(gateway)
    await waitFor(async () => (await gateway.client.send('GET', '/version')).status === 200, {
      what: () => `gateway ${number}\n${process.logTail()}`,
    })
  }

  async #startProxy(): Promise<void> {
    this.#proxy = this.network.addMachine('proxy', 10)
    const log = openSync(join(this.#directory, 'haproxy.log'), 'a')
    const command = ['netns', 'exec', this.#proxy.namespace, '/usr/sbin/haproxy', '-db', '-f']
    const file = exampleProxyConfig(this.#directory)
    this.#proxyProcess = spawn('ip', [...command, file], { stdio: ['ignore', log, log] })
    closeSync(log)
    this.client = new LabClient(`https://${this.#proxy.host}`, this.adminKey)
    await waitFor(async () => (await this.client.send('GET', '/version')).status === 200, {
      what: () => `HAProxy: ${this.proxyLog}`,
    })
  }

  /** Registers a host. @returns its id and its join token */
  async #addHost(name: string, address: string): Promise<{ id: string; token: string }> {
    const { status, body, text } = await this.client.send('POST', '/hosts', { body: { name, address } })
    if (status !== 201) throw new Error(`adding a host was answered with ${status}: ${text}`)
    return { id: body.data.host.id as string, token: body.data.join_token as string }
  }

  async #startAgents(): Promise<void> {
    this.#agents = this.network.addMachine('agents', 40)
    const orders: LabAgentOrder[] = []
    for (let index = 0; index < this.options.agents; index++) {
      const [name, listen] = [`memory-${index}`, this.agentAddress(index)]
      const { id, token } = await this.#addHost(name, listen)
      this.hosts.push({ id, real: undefined })
      const identityDir = join(this.#directory, name)
      orders.push({ name, identityDir, token, listen, guests: seededGuests, firstId: 1 + index * seededGuests })
    }
    const program = nodeArguments('test/support/failover/lab-agents-main.ts')
    const args = ['netns', 'exec', this.#agents.namespace, process.execPath, ...program]
    const child = spawn('ip', args, { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] })
    this.#agentProcess = child
    const serving = once(child, 'message')
    child.send(orders)
    await serving
  }

  async #startRealHost(index: number): Promise<void> {
    const { segment } = this.network
    const directory = this.#scratch.path
    const host = new FleetHost({ name: `fo${'abc'[index - 1]}`, index, segment, directory, poolGb: 4 })
    await host.remove()
    await host.make()
    const { id, token } = await this.#addHost(`real-${index}`, host.address)
    this.hosts.push({ id, real: host })
    host.join(token)
    host.start()
  }

  async #startReceiver(): Promise<void> {
    this.receiver = await WebhookReceiver.start(observer)
    const events = ['guest.created', 'guest.removed', 'task.done', 'task.failed']
    const body = { name: 'failover', url: this.receiver.url, events }
    const { status, text } = await this.client.send('POST', '/webhooks', { body })
    if (status !== 201) throw new Error(`adding a webhook was answered with ${status}: ${text}`)
  }

  /** Writes the packages that the gateways offer to hosts. */
  async writePackages(): Promise<void> {
    const { body } = await this.client.send('GET', '/version')
    const directory = join(this.#directory, 'packages')
    mkdirSync(directory)
    writeFileSync(join(directory, 'InRelease'), 'signed')
    writeFileSync(join(directory, 'Packages'), `Package: berth-agent\nVersion: ${String(body.data.version)}\n`)
  }
}

/** Last number of the address of each machine with a Redis server and a Sentinel. */
const redisNumbers = [21, 22, 23] as const

/** Limits that the load does not reach. */
const unlimited = {
  key_requests_per_second: 0,
  key_requests_at_once: 0,
  address_requests_per_second: 0,
  address_requests_at_once: 0,
  auth_failures_per_minute: 1_000_000,
  api_keys: 100_000,
}

const hostOf = (address: string): string => address.split(':')[0]!

async function endAgents(child: ChildProcess | undefined): Promise<void> {
  if (!child || child.exitCode !== null) return
  const gone = once(child, 'exit')
  if (child.connected) child.disconnect()
  await gone
}
