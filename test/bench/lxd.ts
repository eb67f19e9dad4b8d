import { execFile, spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { Agent, request, type IncomingMessage } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { json } from 'node:stream/consumers'
import { promisify } from 'node:util'
import { parse } from 'yaml'
import { waitFor } from '../support/wait.js'

const run = promisify(execFile)
const socketPath = '/var/lib/lxd/unix.socket'
const image = 'berth-bench'
/** LXD's nftables table. After the deletion of LXD's last network, the table still exists, but is empty. */
const table = ['inet', 'lxd']

const preseed = `
storage_pools: [{ name: berthbench, driver: btrfs, config: { size: 20GiB } }]
networks: [{ name: lxdbench0, type: bridge, config: { ipv4.address: 10.231.0.1/20, ipv4.nat: "false", ipv6.address: none } }]
profiles:
  - name: default
    devices:
      root: { type: disk, path: /, pool: berthbench }
      eth0: { type: nic, network: lxdbench0 }
`

interface Operation {
  type: string
  status_code: number
  operation?: string
  error?: string
  metadata: { status?: string; status_code?: number; err?: string } | null
}

/** LXD from Debian's packages, used through its own REST API and with the same image as Berth. */
export class Lxd {
  readonly #http = new Agent({ keepAlive: true, maxSockets: 32 })
  #daemon: ChildProcess | undefined
  #hadTable = true

  /** Starts LXD. @returns undefined if LXD is not installed */
  static async open(configDirectory = '/etc/berth-bench'): Promise<Lxd | undefined> {
    if (!isLxdInstalled()) return undefined
    const lxd = new Lxd()
    await lxd.#start()
    await lxd.#importImage(configDirectory)
    return lxd
  }

  async create(name: string): Promise<void> {
    await this.#operation('POST', '/1.0/instances', {
      name,
      type: 'container',
      source: { type: 'image', alias: image },
      config: { 'limits.cpu.allowance': '100ms/100ms', 'limits.memory': '256MiB' },
    })
  }

  start(name: string): Promise<void> {
    return this.#operation('PUT', `/1.0/instances/${name}/state`, { action: 'start', timeout: 60 })
  }

  kill(name: string): Promise<void> {
    return this.#operation('PUT', `/1.0/instances/${name}/state`, {
      action: 'stop',
      force: true,
      timeout: 60,
    })
  }

  delete(name: string): Promise<void> {
    return this.#operation('DELETE', `/1.0/instances/${name}`)
  }

  snapshot(name: string, snapshot: string): Promise<void> {
    return this.#operation('POST', `/1.0/instances/${name}/snapshots`, { name: snapshot })
  }

  /** Restores a snapshot. LXD stops a running instance for this and starts it again. */
  restore(name: string, snapshot: string): Promise<void> {
    return this.#operation('PUT', `/1.0/instances/${name}`, { restore: snapshot })
  }

  deleteSnapshot(name: string, snapshot: string): Promise<void> {
    return this.#operation('DELETE', `/1.0/instances/${name}/snapshots/${snapshot}`)
  }

  async list(): Promise<{ name: string; status: string }[]> {
    const answer = await this.#call('GET', '/1.0/instances?recursion=1')
    return answer.metadata as unknown as { name: string; status: string }[]
  }

  /** Removes guests, image, pool and network, and stops the daemon. */
  async close(): Promise<void> {
    for (const { name } of await this.list()) {
      await this.kill(name).catch(() => undefined)
      await this.delete(name).catch(() => undefined)
    }
    await run('lxc', ['image', 'delete', image]).catch(() => undefined)
    await run('sh', ['-c', 'printf "config: {}\\ndevices: {}\\n" | lxc profile edit default']).catch(() => undefined)
    await run('lxc', ['storage', 'delete', 'berthbench']).catch(() => undefined)
    await run('lxc', ['network', 'delete', 'lxdbench0']).catch(() => undefined)
    this.#http.destroy()
    if (!this.#daemon) return
    await run('lxd', ['shutdown', '--timeout', '60']).catch(() => undefined)
    this.#daemon.kill()
    if (!this.#hadTable) await run('nft', ['delete', 'table', ...table]).catch(() => undefined)
  }

  async #start(): Promise<void> {
    if (!(await this.#answers())) {
      this.#hadTable = await hasTable()
      this.#daemon = spawn('lxd', ['--group', 'root'], { stdio: 'ignore' })
      await waitFor(() => this.#answers(), { intervalMs: 200, what: 'lxd' })
    }
    const child = execFile('lxd', ['init', '--preseed'])
    child.stdin?.end(preseed)
    const code = await new Promise<number | null>((done) => child.once('exit', done))
    if (code !== 0) throw new Error(`lxd init: ${code}`)
  }

  async #answers(): Promise<boolean> {
    try {
      await this.#call('GET', '/1.0')
      return true
    } catch {
      return false
    }
  }

  async #importImage(configDirectory: string): Promise<void> {
    const config = parse(readFileSync(join(configDirectory, 'agent.yaml'), 'utf8')) as {
      storage?: { pool?: string }
    }
    const rootfs = join(config.storage?.pool ?? '/var/lib/berth/pool', 'images/debian-12')
    await run('lxc', ['image', 'delete', image]).catch(() => undefined)
    await withPackedImage(rootfs, (files) => run('lxc', ['image', 'import', ...files, '--alias', image]))
  }

  async #operation(method: 'POST' | 'PUT' | 'DELETE', path: string, body?: unknown): Promise<void> {
    const begun = await this.#call(method, path, body)
    if (begun.type !== 'async' || !begun.operation) throw new Error(`${method} ${path}: ${begun.error}`)
    const ended = await this.#call('GET', `${begun.operation}/wait`)
    if (ended.metadata?.status_code !== 200) throw new Error(`${method} ${path}: ${ended.metadata?.err}`)
  }

  async #call(method: 'GET' | 'POST' | 'PUT' | 'DELETE', path: string, body?: unknown): Promise<Operation> {
    const call = request({ socketPath, path, method, agent: this.#http })
    call.end(body === undefined ? undefined : JSON.stringify(body))
    const [answer] = (await once(call, 'response')) as [IncomingMessage]
    return (await json(answer)) as Operation
  }
}

export function isLxdInstalled(): boolean {
  return existsSync('/usr/sbin/lxd') || existsSync('/usr/bin/lxd')
}

/** Packs a root filesystem as the two archives of an LXD image, calls `use` with their paths, and removes them. */
export async function withPackedImage<T>(rootfs: string, use: (files: string[]) => Promise<T>): Promise<T> {
  const directory = mkdtempSync(join(tmpdir(), 'btestbench-lxd-'))
  const files = ['metadata.tar', 'rootfs.tar'].map((name) => join(directory, name)) as [string, string]
  const metadata = { architecture: 'x86_64', creation_date: 1, properties: { os: 'debian', release: 'bookworm' } }
  try {
    writeFileSync(join(directory, 'metadata.yaml'), JSON.stringify(metadata))
    await run('tar', ['-C', directory, '-cf', files[0], 'metadata.yaml'])
    await run('tar', ['-C', rootfs, '--numeric-owner', '-cf', files[1], '.'])
    return await use(files)
  } finally {
    rmSync(directory, { recursive: true, force: true })
  }
}

function hasTable(): Promise<boolean> {
  return run('nft', ['list', 'table', ...table]).then(
    () => true,
    () => false,
  )
}
