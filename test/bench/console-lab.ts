import { execFileSync } from 'node:child_process'
import { copyFileSync, existsSync, mkdirSync, readFileSync, readdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { ConsoleClient } from '../support/gateway/console-client.js'
import { FleetHost, makeSegment, removeSegment } from '../support/host/fleet-host.js'
import { endLeftGateway, GatewayProcess } from '../support/gateway/gateway-process.js'
import { processes } from '../support/host/inventory.js'
import { scratchDirectory } from '../support/scratch.js'
import { installTinyImage } from '../support/guests/tiny-image.js'
import { waitFor } from '../support/wait.js'

const directory = '/var/tmp/btest-bcn'
const segment = { bridge: 'btest-bcnb', prefix: '198.18.139' }

/** A real gateway and two real agents. Their guests have a small SSH server. */
export class ConsoleBench {
  readonly hosts = [1, 2].map(
    (index) => new FleetHost({ name: index === 1 ? 'bca' : 'bcb', index, segment, directory }),
  )
  readonly keyFile = join(directory, 'id')
  gateway!: GatewayProcess
  /** Ids of the hosts by their names. */
  readonly hostIds = new Map<string, string>()
  #wipe: (() => void) | undefined

  async start(): Promise<void> {
    await endLeftGateway(join(directory, 'gateway'))
    for (const host of this.hosts) await host.remove()
    this.#wipe = scratchDirectory('btest-bcn').wipe
    makeSegment(segment)
    execFileSync('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-f', this.keyFile])
    this.gateway = await GatewayProcess.create(join(directory, 'gateway'), `${segment.prefix}.1`)
    this.gateway.start()
    await this.gateway.ready()
    for (const host of this.hosts) await this.#add(host)
  }

  async close(): Promise<void> {
    await this.gateway?.close()
    for (const host of this.hosts) await host.remove()
    removeSegment(segment)
    this.#wipe?.()
  }

  async send<T>(method: string, path: string, body?: unknown): Promise<T> {
    const { status, body: answer } = await this.gateway.request(method, path, body === undefined ? {} : { body })
    if (status >= 300) throw new Error(`${method} ${path}: ${status} ${JSON.stringify(answer)}`)
    return answer.data as T
  }

  /** Creates a guest and waits until it runs. @returns the guest as the API shows it */
  async create(name: string, fields: object): Promise<{ uuid: string; id: number; ssh_port: number }> {
    const sizes = { template_id: 'debian-12', vcpu: 1, ram_mb: 128, disk_gb: 1 }
    await this.send('POST', '/containers', { name, ...sizes, ...fields })
    return waitFor(
      async () => {
        const row = await this.send<{ status: string; uuid: string; id: number; ssh_port: number }>(
          'GET',
          `/containers/${name}`,
        )
        return row.status === 'running' ? row : undefined
      },
      { timeoutMs: 180_000, what: `${name} runs` },
    )
  }

  async open(kind: 'ssh' | 'vnc', container: string): Promise<ConsoleClient> {
    const { ticket } = await this.send<{ ticket: string }>('POST', `/${kind}-ticket`, { container })
    const client = ConsoleClient.open(`${this.gateway.url}/api/v1/${kind}`, {
      protocols: ['berth.console.v1', `berth-ticket.${ticket}`],
      query: { container },
    })
    await client.ready()
    return client
  }

  /** Returns the path of the socket that serves the screen of a virtual machine. */
  screenSocket({ directory: of }: FleetHost): string {
    const found = readdirSync(join(of, 'run'), { recursive: true, encoding: 'utf8' }).find((path) =>
      /\/vnc$/.test(path),
    )
    return join(of, 'run', found ?? '')
  }

  /** Returns the resident memory of all processes between client and guest, in KiB. */
  memoryKib(): Record<'gateway' | 'agents' | 'consoles', number> {
    const of = (pattern: RegExp): number =>
      processes()
        .filter(({ command }) => pattern.test(command) && command.includes(directory))
        .reduce((sum, { pid }) => sum + residentKib(pid), 0)
    return {
      gateway: residentKib(this.gateway.pid),
      agents: of(/dist\/agent\/main\.js serve/),
      consoles: of(/^berth-console /),
    }
  }

  async #add(host: FleetHost): Promise<void> {
    await host.make()
    this.#installSsh(join(host.instance.pool, 'images', 'debian-12'))
    installTinyImage(host.instance.pool, 'debian-12-kvm')
    const body = { name: host.name, address: host.address }
    host.join((await this.send<{ join_token: string }>('POST', '/hosts', body)).join_token)
    host.start()
    await waitFor(
      async () => {
        const rows = await this.send<{ id: string; name: string; status: string }[]>('GET', '/hosts')
        const row = rows.find(({ name }) => name === host.name)
        if (row) this.hostIds.set(row.name, row.id)
        return row?.status === 'online'
      },
      { what: () => `${host.name} online\n${host.logTail()}` },
    )
  }

  /** Installs dropbear with its libraries, and the public key of the benchmark. */
  #installSsh(tree: string): void {
    const writable = (ro: string): unknown => execFileSync('btrfs', ['property', 'set', tree, 'ro', ro])
    writable('false')
    const program = '/usr/sbin/dropbear'
    const libraries = execFileSync('ldd', [program], { encoding: 'utf8' }).match(/\/\S+\.so\S*/g) ?? []
    for (const file of [program, ...libraries]) copyInto(tree, file)
    mkdirSync(join(tree, 'etc/dropbear'))
    mkdirSync(join(tree, 'root/.ssh'), { mode: 0o700 })
    const key = readFileSync(`${this.keyFile}.pub`)
    writeFileSync(join(tree, 'root/.ssh/authorized_keys'), key, { mode: 0o600 })
    writeFileSync(join(tree, 'etc/shells'), '/bin/sh\n')
    const lines = '::respawn:/usr/sbin/dropbear -F -R -E\n::shutdown:/bin/sync\n'
    writeFileSync(join(tree, 'etc/inittab'), `::sysinit:/bin/true\n${lines}`)
    writable('true')
  }
}

function copyInto(tree: string, file: string): void {
  const target = join(tree, file)
  if (existsSync(target)) return
  mkdirSync(dirname(target), { recursive: true })
  copyFileSync(file, target)
}

function residentKib(pid: number): number {
  return Number(/^VmRSS:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 0)
}
