import { existsSync, rmSync } from 'node:fs'
import { mkdir, rm } from 'node:fs/promises'
import { KeyedSingleFlight } from '../../../shared/async/single-flight.js'
import { listLocks, removeLock } from '../../host/guest/lxc.js'
import { listDirectory, readKernelFile } from '../../host/process/proc.js'
import type { LxcPaths } from './paths.js'
import { replaceFile } from '../common/replace-file.js'

/** Guests' lxc configuration files. The first line of each file contains the guest's uuid. */
export class LxcConfigStore {
  readonly #uuids = new Map<string, string>()
  readonly #names: RegExp
  readonly #removals = new KeyedSingleFlight<string>()

  constructor(
    private readonly paths: LxcPaths,
    prefix: string,
  ) {
    this.#names = new RegExp(`^${prefix}-\\d+$`)
  }

  async write(name: string, uuid: string, lines: readonly string[]): Promise<void> {
    await this.#removals.settled(name)
    await mkdir(this.paths.directoryOf(name), { recursive: true, mode: 0o700 })
    await replaceFile(this.paths.configOf(name), lines.map((line) => `${line}\n`).join(''), 0o600)
    this.#uuids.set(name, uuid)
  }

  /**
   * Writes the configuration if its content changes. The guest reads the configuration at its next start or reboot.
   * @returns true if it was written
   */
  async ensure(name: string, uuid: string, lines: readonly string[]): Promise<boolean> {
    const text = lines.map((line) => `${line}\n`).join('')
    if (readKernelFile(this.paths.configOf(name)) === text) return false
    await this.write(name, uuid, lines)
    return true
  }

  /** Removes the configuration. Other methods ignore it from now on. A later `write` waits until the removal ends. */
  remove(name: string): Promise<void> {
    return this.#removals.run(name, () => {
      this.#uuids.delete(name)
      removeLock({ lxcPath: this.paths.lxcPath, name })
      return rm(this.paths.directoryOf(name), { recursive: true, force: true })
    })
  }

  /** Returns the guest's uuid. It is cached, because only this agent writes configurations. */
  findUuid(name: string): string | undefined {
    if (this.#removals.has(name)) return undefined
    const known = this.#uuids.get(name)
    if (known !== undefined) return known
    const text = readKernelFile(this.paths.configOf(name)) ?? ''
    const uuid = /^# uuid ([0-9a-f-]{36})$/m.exec(text)?.[1]
    if (uuid !== undefined) this.#uuids.set(name, uuid)
    return uuid
  }

  findDevice(name: string): string | undefined {
    const text = readKernelFile(this.paths.configOf(name)) ?? ''
    return /^lxc\.net\.0\.veth\.pair = (\S+)$/m.exec(text)?.[1]
  }

  listNames(): string[] {
    const names = listDirectory(this.paths.lxcPath)
    return names.filter((name) => this.#names.test(name) && !this.#removals.has(name))
  }

  /** Removes directories and locks of guests without a configuration, left behind by an agent that was killed. */
  sweep(isStopped: (name: string) => boolean): void {
    const { lxcPath } = this.paths
    const locked = listLocks(lxcPath).filter((name) => this.#names.test(name))
    for (const name of new Set([...this.listNames(), ...locked])) {
      if (existsSync(this.paths.configOf(name)) || !isStopped(name)) continue
      rmSync(this.paths.directoryOf(name), { recursive: true, force: true })
      removeLock({ lxcPath, name })
    }
  }

  findName(uuid: string): string | undefined {
    return this.listNames().find((name) => this.findUuid(name) === uuid)
  }

  listUuids(): string[] {
    return this.listNames().flatMap((name) => this.findUuid(name) ?? [])
  }
}
