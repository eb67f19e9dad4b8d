import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { promisify } from 'node:util'
import type { BerthApi } from './berth-api.js'
import { figure, median, type Figure } from './figures.js'

const run = promisify(execFile)
const name = 'disk'
/** Limits of the guest's disk rates, in MB/s of 10^6 bytes. */
const sold = { read: 20, write: 10 } as const
const diskGb = 2
/** Duration of one run of fio in seconds. */
const seconds = 5
const mostRounds = 3
const mb = 1_000_000
const gib = 1024 ** 3
/** Directory of fio in the guest: Debian's images do not contain fio. */
const place = '/root/fio'

export interface DiskOptions {
  /** Directory with lxc's configurations of the instance named bench. */
  readonly lxcPath: string
  /** Returns the name `<prefix>-<id>` of a container. */
  readonly lxcName: (id: number) => string
}

/** Compares the rates of a guest's disk with their limits, and the data that fits on the disk with the disk's size. */
export async function benchDisk(api: BerthApi, options: DiskOptions, rounds: number): Promise<Figure[]> {
  const limits = { vcpu: 1, ram_mb: 512, disk_gb: diskGb }
  const body = { name, template_id: 'debian-12', ...limits }
  const { id } = await api.call<{ id: number }>('POST', '/containers', body)
  try {
    await api.untilStatus(name, 'running')
    const fio = new GuestFio(['-P', options.lxcPath, '-n', options.lxcName(id), '--clear-env', '--'])
    await fio.install()
    const beforeBytes = await fio.usedBytes()
    const free = await measureRates(fio, rounds)
    const rates = { io_read_mbps: sold.read, io_write_mbps: sold.write }
    await api.call('PUT', `/containers/${name}/resource-limit`, rates)
    const bounded = await measureRates(fio, rounds)
    return [
      ...[...bounded].map(([what, { mbps, of }]) =>
        figure(`${what}, bounded`, 'MB/s', { Berth: mbps, sold: sold[of] }),
      ),
      ...[...free].map(([what, { mbps }]) => figure(`${what}, unbounded`, 'MB/s', { Berth: mbps })),
      figure('written until the disk is full', 'GiB', {
        Berth: ((await fio.fill()) - beforeBytes) / gib,
        sold: diskGb,
      }),
    ]
  } finally {
    await api.call('DELETE', `/containers/${name}/delete`)
    await api.untilGone(name)
  }
}

const jobs = [
  ['reads in sequence, 1 MiB', 'read', ['--rw=read', '--bs=1M']],
  ['writes in sequence, 1 MiB', 'write', ['--rw=write', '--bs=1M']],
  ['reads at random, 4 KiB', 'read', ['--rw=randread', '--bs=4k']],
  ['writes at random, 4 KiB', 'write', ['--rw=randwrite', '--bs=4k']],
] as const

interface Rate {
  readonly mbps: number
  readonly of: keyof typeof sold
}

async function measureRates(fio: GuestFio, rounds: number): Promise<Map<string, Rate>> {
  const rates = new Map<string, Rate>()
  for (const [what, of, args] of jobs) {
    const reached: number[] = []
    for (let round = 0; round < Math.min(rounds, mostRounds); round++) reached.push((await fio.rate(of, args)) / mb)
    rates.set(what, { mbps: median(reached), of })
  }
  return rates
}

/** The host's fio with its libraries, copied into a guest with the same Debian. */
class GuestFio {
  /** @param attach arguments of lxc-attach before the command */
  constructor(private readonly attach: readonly string[]) {}

  async install(): Promise<void> {
    const { stdout: linked } = await run('ldd', ['/usr/bin/fio'])
    const libraries = [...linked.matchAll(/(\/\S+) \(0x/g)].map(([, path]) => path!)
    await run('lxc-attach', [...this.attach, 'mkdir', '-p', place])
    const files = ['/usr/bin/fio', ...libraries].map((path) => path.slice(1))
    const tar = spawn('tar', ['-C', '/', '--dereference', '-c', ...files], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    const untar = spawn('lxc-attach', [...this.attach, 'tar', '-C', place, '-x'], {
      stdio: ['pipe', 'ignore', 'inherit'],
    })
    tar.stdout.pipe(untar.stdin)
    const [code] = (await once(untar, 'exit')) as [number | null]
    if (code !== 0) throw new Error(`fio could not be copied into the guest: ${code}`)
  }

  /** Runs fio without the page cache. @returns bytes per second */
  async rate(of: keyof typeof sold, args: readonly string[]): Promise<number> {
    const { stdout } = await this.#fio([
      '--name=rate',
      '--filename=/root/io',
      '--size=128M',
      '--direct=1',
      '--ioengine=psync',
      `--runtime=${seconds}`,
      '--time_based',
      '--output-format=json',
      ...args,
    ])
    const { jobs: results } = JSON.parse(stdout.slice(stdout.indexOf('{'))) as {
      jobs: Record<keyof typeof sold, { bw_bytes: number }>[]
    }
    return results[0]![of].bw_bytes
  }

  /** Writes until the disk is full. @returns the number of bytes that the disk then uses */
  async fill(): Promise<number> {
    const args = ['--name=fill', '--filename=/root/full', '--size=8G', '--rw=write', '--bs=1M', '--fallocate=none']
    const failed = await this.#fio(args).then(
      () => '',
      (error: { stdout?: string; stderr?: string }) => `${error.stdout}${error.stderr}`,
    )
    if (!/No space left|Disk quota exceeded/.test(failed)) throw new Error(`the disk does not become full: ${failed}`)
    return this.usedBytes()
  }

  async usedBytes(): Promise<number> {
    const { stdout } = await run('lxc-attach', [...this.attach, 'du', '-sxB1', '/'])
    return Number(stdout.split('\t')[0])
  }

  #fio(args: readonly string[]): Promise<{ stdout: string }> {
    const loader = ['/lib64/ld-linux-x86-64.so.2', '--library-path']
    const libraries = ['/lib', '/usr/lib'].map((folder) => `${place}${folder}/x86_64-linux-gnu`).join(':')
    return run('lxc-attach', [
      ...this.attach,
      `${place}${loader[0]}`,
      loader[1]!,
      `${libraries}:${place}/usr/lib/x86_64-linux-gnu/ceph`,
      `${place}/usr/bin/fio`,
      ...args,
    ])
  }
}
