import { conflict } from '../../../shared/errors.js'
import type { Machine } from '../contract.js'
import type { ConfigStore } from './config-store.js'
import type { QemuPaths } from './paths.js'
import type { RuntimeReader } from './runtime.js'

/** What a guest is called on the host, by its id: another may have had it, and still run. */
export class GuestNames {
  constructor(
    private readonly paths: QemuPaths,
    private readonly configs: ConfigStore,
    private readonly runtime: RuntimeReader,
  ) {}

  /** @throws {BerthError} `guest_foreign` when the configuration of that name is another guest's */
  nameOf({ id, uuid }: Machine): string {
    const name = this.paths.nameOf(id)
    const owner = this.configs.find(name)?.uuid
    if (owner === undefined || owner === uuid) return name
    throw conflict('guest_foreign', `${name} is another guest's on this host: ${owner}`)
  }

  /** @throws {BerthError} `guest_foreign` also when something of that name runs without a configuration */
  freeNameOf(machine: Machine): string {
    const name = this.nameOf(machine)
    if (!this.isForeign(machine)) return name
    throw conflict('guest_foreign', `${name} has processes on this host, and no configuration`)
  }

  isForeign({ id, uuid }: Machine): boolean {
    const name = this.paths.nameOf(id)
    const owner = this.configs.find(name)?.uuid
    return owner === undefined ? this.runtime.read(name).state !== 'stopped' : owner !== uuid
  }

  /** Of those that run, or ran, without a configuration. */
  listUnknown(prefix: string): string[] {
    return this.runtime.listNames(prefix).filter((name) => this.configs.find(name) === undefined)
  }
}
