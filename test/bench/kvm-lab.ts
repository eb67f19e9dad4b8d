import { execFile, execFileSync } from 'node:child_process'
import { existsSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { FleetHost, makeSegment, removeSegment } from '../support/host/fleet-host.js'
import { endLeftGateway, GatewayProcess } from '../support/gateway/gateway-process.js'
import { readMachineProcesses } from '../support/host/inventory.js'
import { installIdleImage } from '../support/guests/matrix-guests.js'
import { scratchDirectory } from '../support/scratch.js'
import { sh } from '../support/sh.js'
import { tinyDisk } from '../support/guests/tiny-image.js'
import { waitFor } from '../support/wait.js'
import { rssMb } from './idle.js'
import { makeFioDisk } from './kvm-disk.js'
import { RawQemu } from './raw-qemu.js'

const directory = '/var/tmp/btest-kvm-bench'
const segment = { bridge: 'btest-kvb', prefix: '198.18.12' }
/** Memory of each virtual machine in MiB. */
export const ramMb = 256
/** Time limit of a boot while nineteen other machines boot and QEMU translates each instruction. */
export const bootMs = 300_000
const gib = 1024 ** 3

/** Templates whose disk the lab replaces: `idle` by one that halts, `tiny` by a small system, `fio` by one with fio. */
export const disks = { idle: 'debian-12-kvm', tiny: 'debian-13-kvm', fio: 'ubuntu-24.04-kvm' } as const

/** A gateway, and a host with its own agent in a network namespace. Its images boot quickly or halt at once. */
export class KvmLab {
  readonly host = new FleetHost({ name: 'kvb', index: 1, segment, directory, poolGb: 40 })
  readonly raw = new RawQemu(this.host.instance.pool, ramMb, segment.bridge)
  readonly #scratch = scratchDirectory('btest-kvm-bench')
  #gateway!: GatewayProcess

  static async open(): Promise<KvmLab> {
    const lab = new KvmLab()
    await lab.#make()
    return lab
  }

  async #make(): Promise<void> {
    await endLeftGateway(join(directory, 'gateway'))
    await this.host.remove()
    mkdirSync(this.#scratch.path, { recursive: true })
    makeSegment(segment)
    this.#gateway = await GatewayProcess.create(join(directory, 'gateway'), `${segment.prefix}.1`)
    this.#gateway.start()
    await this.#gateway.ready()
    await this.host.make()
    const { pool } = this.host.instance
    installIdleImage(pool, disks.idle)
    installDisk(pool, disks.tiny, tinyDisk())
    installDisk(pool, disks.fio, makeFioDisk(directory))
    const { name, address } = this.host
    const added = await this.ask<{ join_token: string }>('POST', '/hosts', { name, address })
    this.host.join(added.join_token)
    this.host.start()
    const isOnline = async (): Promise<boolean> =>
      (await this.ask<{ status: string }[]>('GET', '/hosts'))[0]?.status === 'online'
    await waitFor(isOnline, { what: 'the host' })
  }

  async close(): Promise<void> {
    await this.#gateway.close()
    await this.host.remove()
    removeSegment(segment)
    this.#scratch.wipe()
  }

  async ask<T>(method: string, path: string, body?: unknown): Promise<T> {
    const answer = await this.#gateway.request(method, path, body === undefined ? {} : { body })
    if (answer.status >= 300) throw new Error(`${method} ${path}: ${JSON.stringify(answer.body)}`)
    return (answer.body as unknown as { data: T }).data
  }

  body(name: string, templateId: string, diskGb = 1, vcpu = 1): object {
    const size = { vcpu, ram_mb: ramMb, disk_gb: diskGb }
    return { name, virtualization: 'kvm', template_id: templateId, ...size }
  }

  async create(name: string, templateId: string, diskGb = 1, vcpu = 1): Promise<void> {
    await this.ask('POST', '/containers', this.body(name, templateId, diskGb, vcpu))
    await this.untilRunning(name)
  }

  untilRunning(name: string): Promise<unknown> {
    return this.untilAllRun([name])
  }

  untilAllRun(names: readonly string[]): Promise<unknown> {
    const allRun = async (): Promise<boolean> => {
      const rows = await this.ask<{ name: string; status: string }[]>('GET', '/containers')
      return names.every((name) => rows.find((row) => row.name === name)?.status === 'running')
    }
    return waitFor(allRun, { timeoutMs: bootMs, intervalMs: 2, what: () => `${names.join()} to run` })
  }

  async remove(name: string): Promise<void> {
    await this.ask('DELETE', `/containers/${name}/delete`)
    const isGone = async (): Promise<boolean> =>
      (await this.#gateway.request('GET', `/containers/${name}`)).status === 404
    await waitFor(isGone, { intervalMs: 2, what: `${name} gone` })
  }

  pid(name: string): number {
    const found = readMachineProcesses(this.host.instance).get(this.#nameOf(name))
    return Number.parseInt(found ?? '')
  }

  serial(name: string): string {
    return join(this.host.directory, 'run/kvm', this.#nameOf(name), 'serial')
  }

  agentMb(): number {
    return rssMb(this.host.pid)
  }

  /** Fills the disk, except its first GB, with fragmented data. More fragments make a snapshot more expensive. */
  async fill(name: string, { diskGb, dataGb }: { diskGb: number; dataGb: number }): Promise<void> {
    const disk = join(this.host.instance.pool, 'guests', this.#dataOf(name).uuid, 'disk.raw')
    await promisify(execFile)('fio', [
      '--name=fill',
      `--filename=${disk}`,
      '--offset=1g',
      `--size=${(diskGb - 1) * gib}`,
      `--io_size=${dataGb * gib}`,
      '--rw=randwrite',
      '--bs=64k',
      '--ioengine=psync',
      '--end_fsync=1',
      '--fallocate=none',
      '--minimal',
    ])
  }

  #nameOf(name: string): string {
    return `${this.host.name}-${this.#dataOf(name).id}`
  }

  #dataOf(name: string): { id: number; uuid: string } {
    const rows = execFileSync('curl', [
      '-sf',
      '-H',
      `x-api-key: ${this.#gateway.adminKey}`,
      `${this.#gateway.url}/api/v1/containers/${name}`,
    ])
    return (JSON.parse(rows.toString()) as { data: { id: number; uuid: string } }).data
  }
}

function installDisk(pool: string, templateId: string, disk: string): void {
  const path = join(pool, 'images', templateId)
  if (existsSync(path)) return
  sh('btrfs', '-q', 'subvolume', 'create', path)
  sh('chattr', '+C', path)
  sh('cp', '--sparse=always', disk, join(path, 'disk.raw'))
  sh('btrfs', 'property', 'set', path, 'ro', 'true')
}
