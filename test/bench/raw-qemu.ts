import { execFile } from 'node:child_process'
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { waitFor } from '../support/wait.js'
import { isThere } from '../../agent/host/process/proc.js'

const run = promisify(execFile)

/** Baseline of the measurements: QEMU by hand, with the same image, a seed and a tap, but no limits or rules. */
export class RawQemu {
  /** @param pool path of images and clones @param ramMb memory of each machine @param bridge bridge of the taps */
  constructor(
    private readonly pool: string,
    private readonly ramMb: number,
    private readonly bridge: string,
  ) {}

  /** Starts a machine. Resolves when its devices exist and its CPU runs. */
  async create(name: string, image: string, diskGb: number, processors = 1): Promise<void> {
    const volume = this.#volume(name)
    await run('btrfs', ['subvolume', 'snapshot', join(this.pool, 'images', image), volume])
    await run('truncate', ['-s', `${diskGb}G`, join(volume, 'disk.raw')])
    mkdirSync(join(volume, 'seed'))
    writeFileSync(join(volume, 'seed/meta-data'), `{"instance-id":"iid-${name}","local-hostname":"${name}"}`)
    await run('genisoimage', [
      '-quiet',
      '-output',
      join(volume, 'seed.iso'),
      '-volid',
      'cidata',
      '-joliet',
      '-rock',
      join(volume, 'seed'),
    ])
    await run('qemu-system-x86_64', [...this.#command(name, volume), '-smp', `${processors}`])
    await run('ip', ['link', 'set', 'dev', tapOf(name), 'master', this.bridge, 'up'])
  }

  pid(name: string): number {
    return Number(readFileSync(join(this.#volume(name), 'pid'), 'utf8'))
  }

  serial(name: string): string {
    return join(this.#volume(name), 'serial')
  }

  async remove(name: string): Promise<void> {
    const pid = this.pid(name)
    process.kill(pid, 'SIGKILL')
    await waitFor(() => !isThere(pid))
    rmSync(this.serial(name), { force: true })
    await run('btrfs', ['subvolume', 'delete', this.#volume(name)])
  }

  #volume(name: string): string {
    return join(this.pool, `raw-${name}`)
  }

  #command(name: string, volume: string): string[] {
    const disk = 'if=none,id=d,format=raw,cache=none,aio=io_uring,discard=unmap,detect-zeroes=unmap'
    return [
      '-daemonize',
      '-display',
      'none',
      '-nodefaults',
      '-machine',
      'q35',
      '-m',
      `${this.ramMb}M`,
      '-accel',
      'tcg,thread=multi,tb-size=128',
      '-cpu',
      'qemu64,+ssse3,+sse4.1,+sse4.2,+popcnt,+cx16',
      '-drive',
      `file=${volume}/disk.raw,${disk}`,
      '-device',
      'virtio-blk-pci,drive=d,bootindex=1',
      '-drive',
      `file=${volume}/seed.iso,if=none,id=s,format=raw,read-only=on`,
      '-device',
      'virtio-blk-pci,drive=s',
      '-device',
      'VGA',
      '-device',
      'virtio-rng-pci',
      '-nic',
      `tap,ifname=${tapOf(name)},script=no,downscript=no,model=virtio-net-pci`,
      '-serial',
      `unix:${volume}/serial,server=on,wait=off`,
      '-pidfile',
      `${volume}/pid`,
    ]
  }
}

function tapOf(name: string): string {
  return `btraw${name.length}`
}
