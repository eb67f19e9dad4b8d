import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs'
import type { Pool } from '../../../agent/storage/pool.js'
import { sh } from '../sh.js'
import { waitFor } from '../wait.js'

/** An unprivileged container with a copy of debian-12, created by the tools of lxc and without Berth. */
export class HandmadeGuest {
  readonly #lxcPath: string
  readonly root: string

  constructor(
    readonly name: string,
    pool: Pool,
    directory: string,
    extraLines: readonly string[] = [],
  ) {
    this.#lxcPath = `${directory}/lxc`
    this.root = `${pool.guests}/${name}`
    this.#stop()
    sh('btrfs', '-q', 'subvolume', 'snapshot', `${pool.images}/debian-12`, this.root)
    mkdirSync(`${this.#lxcPath}/${name}`, { recursive: true })
    const lines = [
      `lxc.uts.name = ${name}`,
      'lxc.idmap = u 0 1900000000 65536',
      'lxc.idmap = g 0 1900000000 65536',
      `lxc.rootfs.path = dir:${this.root}`,
      'lxc.rootfs.options = idmap=container,nodev',
      'lxc.cap.drop = mac_admin mac_override sys_time sys_module sys_rawio',
      'lxc.mount.auto = cgroup:mixed proc:mixed sys:mixed',
      'lxc.cgroup.relative = 0',
      'lxc.net.0.type = empty',
      'lxc.tty.max = 1',
      ...extraLines,
    ]
    writeFileSync(`${this.#lxcPath}/${name}/config`, `${lines.join('\n')}\n`)
  }

  start(): void {
    execFileSync('/usr/bin/lxc-start', ['-P', this.#lxcPath, '-n', this.name], {
      env: { PATH: '/usr/sbin:/sbin' },
    })
  }

  attach(...command: string[]): string {
    return sh('lxc-attach', '-P', this.#lxcPath, '-n', this.name, '--clear-env', '--', ...command)
  }

  /** Resolves when the systemd of the container answers. */
  async up(): Promise<void> {
    await waitFor(() => this.#isUp(), { what: 'systemd to answer' })
  }

  #isUp(): boolean {
    try {
      return this.attach('sh', '-c', 'test -S /run/systemd/private && echo yes').trim() === 'yes'
    } catch {
      return false // the container does not run yet, or cannot be entered yet
    }
  }

  pid(): string {
    return sh('lxc-info', '-P', this.#lxcPath, '-n', this.name, '-p', '-H').trim()
  }

  #stop(): void {
    if (existsSync(`${this.#lxcPath}/${this.name}`)) sh('lxc-stop', '-k', '-P', this.#lxcPath, '-n', this.name)
  }

  remove(): void {
    this.#stop()
    sh('btrfs', '-q', 'subvolume', 'delete', this.root)
    rmSync(`${this.#lxcPath}/${this.name}`, { recursive: true })
  }
}
