import { readFileSync } from 'node:fs'
import { mkdir, rm } from 'node:fs/promises'
import { dirname } from 'node:path'
import { listDirectory } from '../../host/process/proc.js'
import { replaceFile } from '../common/replace-file.js'
import type { QemuPaths } from './paths.js'

/** The guest that a configuration belongs to. */
interface Config {
  readonly uuid: string
  readonly device: string
}

/** Directories of guests' configurations. Each contains the guest's uuid and the seed of its next start. */
export class QemuConfigStore {
  readonly #known = new Map<string, Config>()
  readonly #names: RegExp

  constructor(
    private readonly paths: QemuPaths,
    prefix: string,
  ) {
    this.#names = new RegExp(`^${prefix}-\\d+$`)
  }

  async write(name: string, config: Config): Promise<void> {
    const file = this.paths.configOf(name)
    await mkdir(dirname(file), { recursive: true, mode: 0o700 })
    await replaceFile(file, `${JSON.stringify(config)}\n`, 0o600)
    this.#known.set(name, config)
  }

  async remove(name: string): Promise<void> {
    this.#known.delete(name)
    await rm(dirname(this.paths.configOf(name)), { recursive: true, force: true })
  }

  /** Returns the configuration. It is cached, because only this agent writes configurations. */
  find(name: string): Config | undefined {
    const found = this.#known.get(name) ?? readConfig(this.paths.configOf(name))
    if (found) this.#known.set(name, found)
    return found
  }

  findUuid(name: string): string | undefined {
    return this.find(name)?.uuid
  }

  findName(uuid: string): string | undefined {
    return this.listNames().find((name) => this.findUuid(name) === uuid)
  }

  listNames(): string[] {
    return listDirectory(this.paths.configs).filter((name) => this.#names.test(name))
  }

  listUuids(): string[] {
    return this.listNames().flatMap((name) => this.findUuid(name) ?? [])
  }
}

/** Reads a configuration. @returns undefined if it is missing, or if a power loss damaged it */
function readConfig(path: string): Config | undefined {
  try {
    const { uuid, device } = JSON.parse(readFileSync(path, 'utf8')) as Config
    return typeof uuid === 'string' && typeof device === 'string' ? { uuid, device } : undefined
  } catch {
    return undefined
  }
}
