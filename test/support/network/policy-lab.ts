import { execFileSync, spawn, type ChildProcess } from 'node:child_process'
import { existsSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { RedisProcess } from '../../../gateway/store/redis-process.js'
import { endLeftGateway, GatewayProcess, shareState } from '../gateway/gateway-process.js'
import { removeNamespace } from '../kill.js'
import { AgentNetwork } from './network-lab.js'
import type { SocketEnd, PolicyAnswer, PolicyCall } from './policy-client.js'
import { nodeArguments } from '../programs.js'
import { silentLog } from '../gateway/redis.js'
import { scratchDirectory } from '../scratch.js'
import { waitFor } from '../wait.js'

const name = 'btest-policy'

/** Namespaces: `gw` has the gateways, `p` and `q` have proxies, `world` has all other clients. */
export const places = ['gw', 'p', 'q', 'world'] as const
export type Place = (typeof places)[number]

const addresses: Readonly<Record<Place, readonly string[]>> = {
  gw: ['10.0.0.10/24', '2001:db8:f::10/64'],
  p: ['10.0.0.1/24', '2001:db8:f::1/64'],
  q: ['10.0.0.2/24'],
  world: [
    '192.0.2.5/32',
    '203.0.113.9/32',
    '1.2.3.4/32',
    '2001:db8:a::1/128',
    '2001:db8:a::9/128',
    '2001:db8:b::1/128',
  ],
}

/** Ports of the two gateways without TLS. */
export const gatewayPorts = [8080, 8081] as const
export const tlsPorts = [8443, 8444] as const
const agentPort = 8070

/** Ways in which proxies report the client's address. Each has a port for the first gateway, and nginx directives. */
const styles = {
  /** The usual configuration: the proxy appends the client's address to the header that the client has sent. */
  append: [8001, 'proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;'],
  port: [8002, 'proxy_set_header X-Forwarded-For $remote_addr:$remote_port;'],
  ipv6Port: [8003, 'proxy_set_header X-Forwarded-For [$remote_addr]:$remote_port;'],
  real: [8004, 'proxy_set_header X-Forwarded-For ""; proxy_set_header X-Real-IP $remote_addr;'],
  cloudflare: [8005, 'proxy_set_header X-Forwarded-For ""; proxy_set_header CF-Connecting-IP $remote_addr;'],
} as const
export type Style = keyof typeof styles

/** Returns the port of the proxy with this style. @param gateway 0 or 1 */
export function proxyPort(style: Style, gateway: number): number {
  return styles[style][0] + 100 * gateway
}

/** Two gateways on one store, real proxies and clients with many addresses, in network namespaces. */
export class PolicyLab {
  readonly #children: ChildProcess[] = []
  readonly #clients = new Map<Place, AgentNetwork>()
  readonly #gateways: GatewayProcess[] = []
  #directory = ''
  #wipe = (): void => undefined

  get adminKey(): string {
    return this.#gateways[0]!.adminKey
  }

  /** Configuration file of the first gateway, for commands on its host. */
  get configFile(): string {
    return join(this.#gateways[0]!.directory, 'gateway.yaml')
  }

  async start(): Promise<void> {
    removeLeft()
    await endLeftGateway(join('/var/tmp', name, 'gw-0'))
    const { path, wipe } = scratchDirectory(name)
    this.#directory = path
    this.#wipe = wipe
    this.#connect()
    for (const place of places) this.#clients.set(place, this.#client(place))
    await this.#startGateways()
    await this.#startAgent()
    this.#startProxies()
    await waitFor(() => this.#answers({ place: 'p', port: proxyPort('append', 0) }), { what: 'proxies' })
  }

  async stop(): Promise<void> {
    for (const gateway of this.#gateways) await gateway.kill('SIGTERM')
    await this.#gateways[0]?.close()
    for (const child of this.#children) child.kill('SIGKILL')
    removeLeft()
    this.#wipe()
  }

  ask(place: Place, call: PolicyCall): Promise<PolicyAnswer> {
    return this.#clients.get(place)!.call('ask', call) as Promise<PolicyAnswer>
  }

  /** Opens a socket or stream. @returns a function that tells how it has ended */
  async open(place: Place, call: PolicyCall): Promise<() => Promise<SocketEnd>> {
    const client = this.#clients.get(place)!
    const number = await client.call('open', call)
    return () => client.call('ended', number) as Promise<SocketEnd>
  }

  /** Sends a request from the gateways' machine, with the API key of the administrator. */
  async admin(method: string, path: string, body?: object): Promise<PolicyAnswer> {
    const headers = { 'x-api-key': this.adminKey, 'content-type': 'application/json' }
    const url = `http://127.0.0.1:${gatewayPorts[0]}/api/v1${path}`
    return this.ask('gw', { method, url, headers, ...(body && { body: JSON.stringify(body) }) })
  }

  /** Creates the namespaces and connects them to one segment with all addresses. */
  #connect(): void {
    for (const place of places) {
      execFileSync('ip', ['netns', 'add', spaceOf(place)])
      this.#in(place, 'ip', 'link', 'set', 'lo', 'up')
    }
    this.#in('gw', 'ip', 'link', 'add', 'eth0', 'type', 'bridge')
    for (const place of places) {
      const peer = ['peer', 'name', 'eth0', 'netns', spaceOf(place)]
      if (place !== 'gw') {
        this.#in('gw', 'ip', 'link', 'add', `to-${place}`, 'type', 'veth', ...peer)
        this.#in('gw', 'ip', 'link', 'set', `to-${place}`, 'master', 'eth0', 'up')
      }
      this.#in(place, 'ip', 'link', 'set', 'eth0', 'up')
      for (const address of addresses[place])
        this.#in(place, 'ip', 'address', 'add', address, 'dev', 'eth0', ...(address.includes(':') ? ['nodad'] : []))
      for (const family of ['-4', '-6']) this.#in(place, 'ip', family, 'route', 'add', 'default', 'dev', 'eth0')
    }
  }

  async #startGateways(): Promise<void> {
    for (const [index, port] of gatewayPorts.entries()) {
      const gateway = await GatewayProcess.create(join(this.#directory, `gw-${index}`), '127.0.0.1', {
        listen: `[::]:${port}`,
        tls_listen: `10.0.0.10:${tlsPorts[index]}`,
        http_listen: '',
        join_listen: `127.0.0.1:${port + 10}`,
        limits: { auth_failures_per_minute: 1_000_000 },
        ...(index > 0 && { redis: { url: this.#redisUrl() } }),
      })
      this.#gateways.push(gateway)
      if (index > 0) shareState(this.#gateways[0]!, gateway)
      gateway.start(spaceOf('gw'))
      await waitFor(() => this.#answers({ place: 'gw', port, path: '/readyz', of: '127.0.0.1' }), {
        what: () => gateway.logTail(),
      })
    }
  }

  #redisUrl(): string {
    const { directory } = this.#gateways[0]!
    const [stateDir, runDir] = [join(directory, 'state'), join(directory, 'run')]
    return new RedisProcess({ program: '/usr/bin/redis-server', stateDir, runDir, log: silentLog }).url
  }

  /** Starts an agent with one guest. The guest's terminals are simulated. */
  async #startAgent(): Promise<void> {
    const address = `127.0.0.1:${agentPort}`
    const { text } = await this.admin('POST', '/hosts', { name: 'host-a', address })
    const token = (JSON.parse(text) as { data: { join_token: string } }).data.join_token
    const options = ['--identity', join(this.#directory, 'agent'), '--guests', '1', '--listen', address]
    const args = nodeArguments('test/support/memory/lab-agent-main.ts', '--join', token, ...options)
    const child = this.#spawn('gw', [process.execPath, ...args])
    await new Promise((resolve) => createInterface({ input: child.stdout! }).once('line', resolve))
    for (const port of gatewayPorts)
      await waitFor(
        async () => {
          const url = `http://127.0.0.1:${port}/api/v1/containers`
          const { text } = await this.ask('gw', { url, headers: { 'x-api-key': this.adminKey } })
          return text.includes('sim-1')
        },
        { what: 'the guest is there' },
      )
  }

  /** Starts proxies on p, q and gw. The proxies on q use a proxy on p, all other proxies use a gateway directly. */
  #startProxies(): void {
    const direct = Object.values(styles).flatMap(([port, says]) =>
      gatewayPorts.map((to, index) => proxyServer(port + 100 * index, `10.0.0.10:${to}`, says)),
    )
    const chained = gatewayPorts.map((_, index) =>
      proxyServer(proxyPort('append', index), `10.0.0.1:${proxyPort('append', index)}`, styles.append[1]),
    )
    const local = gatewayPorts.map((to, index) =>
      proxyServer(proxyPort('append', index), `127.0.0.1:${to}`, styles.append[1]),
    )
    for (const [place, servers] of [['p', direct] as const, ['q', chained] as const, ['gw', local] as const]) {
      const file = join(this.#directory, `nginx-${place}.conf`)
      writeFileSync(file, nginxConfig(join(this.#directory, `nginx-${place}`), servers))
      this.#spawn(place, ['/usr/sbin/nginx', '-c', file])
    }
  }

  async #answers({ place, port, path = '/healthz', of }: { place: Place; port: number; path?: string; of?: string }) {
    const host = of ?? addresses[place][0]!.split('/')[0]
    const answer = await this.ask('gw', { url: `http://${host}:${port}${path}` }).catch(() => undefined)
    return answer?.status === 200
  }

  #client(place: Place): AgentNetwork {
    const command = [process.execPath, ...nodeArguments('test/support/network/policy-client.ts')]
    return new AgentNetwork(this.#spawn(place, command, 'pipe'))
  }

  #spawn(place: Place, command: readonly string[], stdin: 'pipe' | 'ignore' = 'ignore'): ChildProcess {
    const child = spawn('ip', ['netns', 'exec', spaceOf(place), ...command], {
      stdio: [stdin, 'pipe', 'inherit'],
    })
    this.#children.push(child)
    return child
  }

  #in(place: Place, program: string, ...args: string[]): void {
    execFileSync('ip', ['netns', 'exec', spaceOf(place), program, ...args], { stdio: 'pipe' })
  }
}

const spaceOf = (place: Place): string => `btestpolicy-${place}`

/** Removes the namespaces of this run and of earlier runs. */
function removeLeft(): void {
  const names = existsSync('/run/netns') ? readdirSync('/run/netns') : []
  for (const place of places) if (names.includes(spaceOf(place))) removeNamespace(spaceOf(place))
}

function proxyServer(port: number, to: string, says: string): string {
  return `server {
    listen ${port}; listen [::]:${port};
    location / {
      proxy_pass http://${to};
      proxy_http_version 1.1;
      proxy_set_header Host $http_host;
      proxy_set_header Upgrade $http_upgrade;
      proxy_set_header Connection $upgrade_or_close;
      ${says}
    }
  }`
}

function nginxConfig(prefix: string, servers: readonly string[]): string {
  return `daemon off; user root; worker_processes 1; pid ${prefix}.pid; error_log ${prefix}.log;
events {}
http {
  access_log off;
  client_body_temp_path ${prefix}-body; proxy_temp_path ${prefix}-proxy; fastcgi_temp_path ${prefix}-fastcgi;
  uwsgi_temp_path ${prefix}-uwsgi; scgi_temp_path ${prefix}-scgi;
  map $http_upgrade $upgrade_or_close { default upgrade; '' close; }
  ${servers.join('\n  ')}
}
`
}
