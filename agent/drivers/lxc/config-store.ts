import { mkdir, rm } from 'node:fs/promises'
import { listDirectory, readKernelFile } from '../../host/proc.js'
import type { LxcPaths } from './paths.js'
import { replaceFile } from './replace-file.js'

/** Guests' configuration files, and which guest each is of: their first line says so. */
export class ConfigStore {
  readonly #uuids = new Map<string, string>()
  readonly #names: RegExp

  constructor(
    private readonly paths: LxcPaths,
    prefix: string,
  ) {
    this.#names = new RegExp(`^${prefix}-\\d+$`)
  }

  async write(name: string, uuid: string, lines: readonly string[]): Promise<void> {
    await mkdir(this.paths.directoryOf(name), { recursive: true, mode: 0o700 })
    await replaceFile(this.paths.configOf(name), lines.map((line) => `${line}\n`).join(''), 0o600)
    this.#uuids.set(name, uuid)
  }

  async remove(name: string): Promise<void> {
    this.#uuids.delete(name)
    await rm(this.paths.directoryOf(name), { recursive: true, force: true })
  }

  /** Only this agent writes configurations, so what was read once holds. */
  findUuid(name: string): string | undefined {
    const known = this.#uuids.get(name)
    if (known !== undefined) return known
    const text = readKernelFile(this.paths.configOf(name)) ?? ''
    const uuid = /^# uuid ([0-9a-f-]{36})$/m.exec(text)?.[1]
    if (uuid !== undefined) this.#uuids.set(name, uuid)
    return uuid
  }

  /** The host's end of the guest's network. */
  findDevice(name: string): string | undefined {
    const text = readKernelFile(this.paths.configOf(name)) ?? ''
    return /^lxc\.net\.0\.veth\.pair = (\S+)$/m.exec(text)?.[1]
  }

  listNames(): string[] {
    return listDirectory(this.paths.lxcPath).filter((name) => this.#names.test(name))
  }

  listUuids(): string[] {
    return this.listNames().flatMap((name) => this.findUuid(name) ?? [])
  }
}
