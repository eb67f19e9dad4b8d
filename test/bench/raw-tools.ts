import { execFile } from 'node:child_process'
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { parse } from 'yaml'

const run = promisify(execFile)

/** Baseline of the measurements: the same image, snapshot and start by hand, with the tools that the agent uses. */
export class RawTools {
  readonly #pool: string
  readonly #lxcPath: string

  constructor(configDirectory = '/etc/berth-bench') {
    const config = parse(readFileSync(`${configDirectory}/agent.yaml`, 'utf8')) as {
      storage?: { pool?: string }
    }
    this.#pool = config.storage?.pool ?? '/var/lib/berth/pool'
    this.#lxcPath = join(this.#pool, '..', 'bench-raw')
    mkdirSync(this.#lxcPath, { recursive: true, mode: 0o711 })
  }

  async create(name: string): Promise<void> {
    const rootfs = this.#rootfs(name)
    await run('btrfs', ['subvolume', 'snapshot', join(this.#pool, 'images/debian-12'), rootfs])
    mkdirSync(join(this.#lxcPath, name), { mode: 0o711 })
    const lines = [
      // Debian's common.conf would also run lxcfs hooks, which add half a second to each stop.
      'lxc.mount.auto = proc:mixed sys:mixed cgroup:mixed',
      'lxc.pty.max = 1024',
      'lxc.idmap = u 0 3900000000 65536',
      'lxc.idmap = g 0 3900000000 65536',
      `lxc.rootfs.path = dir:${rootfs}`,
      'lxc.rootfs.options = idmap=container',
      `lxc.uts.name = ${name}`,
      'lxc.net.0.type = empty',
      'lxc.apparmor.profile = unconfined',
    ]
    writeFileSync(join(this.#lxcPath, name, 'config'), `${lines.join('\n')}\n`)
  }

  async start(name: string): Promise<void> {
    // The PATH hides newuidmap. If lxc finds this program, it requires entries in /etc/subuid even for root.
    await run('/usr/bin/lxc-start', ['-P', this.#lxcPath, '-n', name, '-d'], {
      env: { PATH: '/bench/nowhere' },
    })
  }

  async kill(name: string): Promise<void> {
    await run('lxc-stop', ['-P', this.#lxcPath, '-n', name, '-k'])
  }

  async delete(name: string): Promise<void> {
    await run('btrfs', ['subvolume', 'delete', this.#rootfs(name)])
    rmSync(join(this.#lxcPath, name), { recursive: true, force: true })
  }

  close(): void {
    rmSync(this.#lxcPath, { recursive: true, force: true })
  }

  #rootfs(name: string): string {
    return join(this.#pool, `bench-raw-${name}`)
  }
}
