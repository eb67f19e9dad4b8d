import { conflict } from '../../../shared/errors.js'
import type { Machine } from '../contract.js'

export interface GuestNamesParts {
  readonly paths: { nameOf(id: number): string }
  readonly configs: { findUuid(name: string): string | undefined }
  readonly runtime: { listNames(prefix: string): string[]; read(name: string): { readonly state: string } }
}

/** What a guest is called on the host, by its id: another may have had it, and still run. */
export class GuestNames {
  constructor(private readonly parts: GuestNamesParts) {}

  /** @throws {BerthError} `guest_foreign` when the configuration of that name is another guest's */
  nameOf({ id, uuid }: Machine): string {
    const name = this.parts.paths.nameOf(id)
    const owner = this.parts.configs.findUuid(name)
    if (owner === undefined || owner === uuid) return name
    throw conflict('guest_foreign', `${name} belongs to another guest on this host: ${owner}`)
  }

  /** @throws {BerthError} `guest_foreign` also when something of that name runs without a configuration */
  freeNameOf(machine: Machine): string {
    const name = this.nameOf(machine)
    if (!this.isForeign(machine)) return name
    throw conflict('guest_foreign', `${name} has processes on this host but no configuration`)
  }

  /** Whether the name is another guest's: ids are given again after a journal was lost, while old guests remain. */
  isForeign({ id, uuid }: Machine): boolean {
    const name = this.parts.paths.nameOf(id)
    const owner = this.parts.configs.findUuid(name)
    return owner === undefined ? this.parts.runtime.read(name).state !== 'stopped' : owner !== uuid
  }

  /** Of those that run, or ran, without a configuration. */
  listUnknown(prefix: string): string[] {
    const { configs, runtime } = this.parts
    return runtime.listNames(prefix).filter((name) => configs.findUuid(name) === undefined)
  }
}
