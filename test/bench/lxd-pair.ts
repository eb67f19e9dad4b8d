import { execFile, spawn, type ChildProcess } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { existsSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { sh } from '../support/sh.js'
import { waitFor } from '../support/wait.js'
import { withPackedImage } from './lxd.js'

const run = promisify(execFile)
const namespace = 'btestbench-lxd'
const directory = `/var/tmp/${namespace}`
const inNamespace = ['nsenter', `--net=/run/netns/${namespace}`, '--']
const image = 'bench'

/** A server of LXD with a directory, a port and a btrfs pool of its own. It is the remote `name` of the client. */
export class LxdServer {
  #daemon: ChildProcess | undefined

  constructor(
    readonly name: string,
    private readonly port: number,
  ) {}

  /** Directory of the containers, as their monitors report it. */
  get lxcPath(): string {
    return join(this.#directory, 'containers')
  }

  /** Returns the root directory of a container. Only the server's mount namespace has its pool. */
  diskOf(guest: string): string {
    return join(`/proc/${this.#daemon?.pid}/root`, this.#directory, 'storage-pools/bench/containers', guest, 'rootfs')
  }

  /** Starts the server, creates its pool and makes the client trust it. */
  async start(): Promise<void> {
    mkdirSync(this.#directory, { recursive: true })
    const [entry = '', ...args] = [...inNamespace, 'unshare', '--mount', '--propagation', 'private', '--', 'lxd']
    this.#daemon = spawn(entry, [...args, '--group', 'root'], { stdio: 'ignore', env: this.#env })
    await waitFor(() => existsSync(join(this.#directory, 'unix.socket')), { what: `the LXD server ${this.name}` })
    await run('lxd', ['waitready', '--timeout', '600'], { env: this.#env })
    const password = randomUUID()
    await this.#configure(password)
    const trust = ['--accept-certificate', '--password', password]
    await lxc('remote', 'add', this.name, `https://127.0.0.1:${this.port}`, ...trust)
  }

  async stop(): Promise<void> {
    const daemon = this.#daemon
    if (!daemon || daemon.exitCode !== null || daemon.signalCode !== null) return
    const gone = once(daemon, 'exit')
    await run('lxd', ['shutdown', '--timeout', '60'], { env: this.#env }).catch(() => daemon.kill('SIGKILL'))
    await gone
  }

  async #configure(password: string): Promise<void> {
    const init = run('lxd', ['init', '--preseed'], { env: this.#env })
    init.child.stdin?.end(
      JSON.stringify({
        config: { 'core.https_address': `127.0.0.1:${this.port}`, 'core.trust_password': password },
        storage_pools: [{ name: 'bench', driver: 'btrfs', config: { size: '8GiB' } }],
        profiles: [{ name: 'default', devices: { root: { type: 'disk', path: '/', pool: 'bench' } } }],
      }),
    )
    await init
  }

  get #directory(): string {
    return join(directory, this.name)
  }

  get #env(): NodeJS.ProcessEnv {
    return { ...process.env, LXD_DIR: this.#directory }
  }
}

/**
 * Two servers of LXD on this machine. They share a network namespace that has only a loopback device, so that they
 * cannot reach other machines. Each has a mount namespace, so that its mounts disappear when it is killed.
 */
export class LxdPair {
  readonly first = new LxdServer('a', 8443)
  readonly second = new LxdServer('b', 8444)

  /** Starts both servers. @param rootfs directory of the image, which the first server gets */
  async open(rootfs: string): Promise<void> {
    removeAll()
    sh('ip', 'netns', 'add', namespace)
    sh('ip', '-n', namespace, 'link', 'set', 'lo', 'up')
    for (const server of [this.first, this.second]) await server.start()
    await withPackedImage(rootfs, (files) => lxc('image', 'import', ...files, 'a:', '--alias', image))
  }

  /** Creates a container at the first server and starts it. */
  async create(guest: string): Promise<void> {
    const limits = ['-c', 'limits.cpu.allowance=50ms/100ms', '-c', 'limits.memory=128MiB']
    await lxc('launch', `${this.first.name}:${image}`, `${this.first.name}:${guest}`, ...limits)
  }

  async close(): Promise<void> {
    for (const server of [this.first, this.second]) await server.stop()
    removeAll()
  }
}

/** Runs LXD's client. Its stdin ends at once, because some commands read a configuration from it. */
export async function lxc(...args: string[]): Promise<void> {
  const [entry = '', ...rest] = [...inNamespace, 'lxc', ...args]
  const client = run(entry, rest, { env: { ...process.env, LXD_CONF: join(directory, 'client') } })
  client.child.stdin?.end()
  await client
}

function removeAll(): void {
  sh(join(import.meta.dirname, 'remove-lxd-pair.sh'))
}
