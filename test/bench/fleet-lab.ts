import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { GatewayProcess } from '../support/gateway/gateway-process.js'
import { freePort } from '../support/ports.js'
import { waitFor } from '../support/wait.js'

/** Limits so high that they are never reached. The gateway still counts requests. */
const neverReached = { key_requests_per_second: 1_000_000, address_requests_per_second: 1_000_000 } as const

/** A gateway with its own Redis and simulated hosts, and bare Koa, which sends the same bytes. */
export class FleetLab {
  readonly #children: ChildProcess[] = []
  #koaPort = 0

  private constructor(
    readonly directory: string,
    readonly gateway: GatewayProcess,
    readonly guests: number,
  ) {}

  /** @param changesPerSecond changes of each host's guests. Each host also sends a sample of itself per second. */
  static async start(hosts: number, guestsPerHost: number, changesPerSecond: number): Promise<FleetLab> {
    const directory = mkdtempSync(join(tmpdir(), 'btestbench-fleet-'))
    const gateway = await GatewayProcess.create(join(directory, 'gateway'), '127.0.0.1', {
      limits: neverReached,
    })
    const lab = new FleetLab(directory, gateway, hosts * guestsPerHost)
    try {
      gateway.start()
      await gateway.ready()
      await lab.#startHosts(hosts, guestsPerHost, changesPerSecond)
      await lab.complete()
      return lab
    } catch (error) {
      await lab.close()
      throw error
    }
  }

  get url(): string {
    return `http://127.0.0.1:${this.gateway.port}/api/v1`
  }

  get key(): string {
    return this.gateway.adminKey
  }

  /** Waits until the gateway shows every guest and all hosts are online. */
  async complete(intervalMs = 100): Promise<void> {
    await waitFor(
      async () => {
        const answer = await this.gateway.request('GET', '/dashboard').catch(() => undefined)
        if (answer?.status !== 200) return false
        const { total_containers: total, unknown } = answer.body.data as Record<string, number>
        return total! >= this.guests && unknown === 0
      },
      { intervalMs, what: `${this.guests} guests in the view` },
    )
  }

  /** Lets bare Koa serve the same response as the gateway. @param path path at the gateway @returns the URL at Koa */
  async mirror(name: string, path: string): Promise<string> {
    const answer = await fetch(this.url + path, { headers: { 'x-api-key': this.key } })
    if (answer.status !== 200) throw new Error(`GET ${path}: ${answer.status}`)
    writeFileSync(join(this.directory, `${name}.json`), Buffer.from(await answer.arrayBuffer()))
    if (this.#koaPort === 0) await this.#startKoa()
    return `http://127.0.0.1:${this.#koaPort}/${name}`
  }

  /** Returns the resident memory of the gateway in MB: the current value and the highest value so far. */
  memory(): { now: number; peak: number } {
    const status = readFileSync(`/proc/${this.gateway.pid}/status`, 'utf8')
    const read = (name: string): number => Number(new RegExp(`^${name}:\\s+(\\d+) kB$`, 'm').exec(status)?.[1]) / 1024
    return { now: read('VmRSS'), peak: read('VmHWM') }
  }

  /** Returns the CPU time that the gateway has used so far, in ms. */
  processorMs(): number {
    const stat = readFileSync(`/proc/${this.gateway.pid}/stat`, 'utf8')
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    return (Number(fields[11]) + Number(fields[12])) * 10
  }

  async close(): Promise<void> {
    for (const child of this.#children) child.kill('SIGKILL')
    await this.gateway.close()
    rmSync(this.directory, { recursive: true, force: true })
  }

  async #startHosts(count: number, guests: number, changesPerSecond: number): Promise<void> {
    const hosts = []
    for (let n = 0; n < count; n++) {
      const listen = `127.0.0.1:${await freePort()}`
      const { body } = await this.gateway.request('POST', '/hosts', {
        body: { name: `sim-${n}`, address: listen },
      })
      const token = body.data.join_token as string
      hosts.push({
        identityDir: join(this.directory, `host-${n}`),
        token,
        listen,
        guests,
        firstId: 1 + n * guests,
      })
    }
    const child = spawn(process.execPath, ['--import', 'tsx', 'test/bench/watch-hosts-main.ts'], {
      stdio: ['pipe', 'pipe', 'inherit'],
    })
    this.#children.push(child)
    child.stdin.write(`${JSON.stringify({ hosts, changesPerSecond })}\n`)
    const ended = once(child, 'exit').then(() => {
      throw new Error('the simulated hosts ended')
    })
    await Promise.race([once(child.stdout, 'data'), ended])
    ended.catch(() => undefined)
  }

  async #startKoa(): Promise<void> {
    this.#koaPort = await freePort()
    const args = ['test/bench/bare-koa.mjs', this.directory, String(this.#koaPort)]
    this.#children.push(spawn(process.execPath, args, { stdio: 'inherit' }))
    const answers = (): Promise<boolean> =>
      fetch(`http://127.0.0.1:${this.#koaPort}`).then(
        () => true,
        () => false,
      )
    await waitFor(answers, { what: 'bare Koa' })
  }
}
