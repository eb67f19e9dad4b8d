import { conflict } from '../../../shared/errors.js'
import type { Machine } from '../machine.js'

export interface GuestNamesParts {
  readonly paths: { nameOf(id: number): string }
  readonly configs: { findUuid(name: string): string | undefined }
  readonly runtime: { listNames(prefix: string): string[]; read(name: string): { readonly state: string } }
}

/**
 * Maps guest ids to names on the host. An id may have belonged to another guest that still runs, so the owner is
 * checked.
 */
export class GuestNames {
  constructor(private readonly parts: GuestNamesParts) {}

  /** Returns the guest's name. @throws {BerthError} `guest_foreign` if another guest's configuration uses it */
  nameOf({ id, uuid }: Machine): string {
    const name = this.parts.paths.nameOf(id)
    const owner = this.parts.configs.findUuid(name)
    if (owner === undefined || owner === uuid) return name
    throw conflict('guest_foreign', `${name} belongs to another guest on this host: ${owner}`)
  }

  /** Returns the guest's name. @throws {BerthError} `guest_foreign` if another guest or unknown processes use it */
  freeNameOf(machine: Machine): string {
    const name = this.nameOf(machine)
    if (!this.isForeign(machine)) return name
    throw conflict('guest_foreign', `${name} has processes on this host but no configuration`)
  }

  /**
   * True if the name belongs to another guest. After the journal was lost, ids are reused while old guests may still
   * run.
   */
  isForeign({ id, uuid }: Machine): boolean {
    const name = this.parts.paths.nameOf(id)
    const owner = this.parts.configs.findUuid(name)
    return owner === undefined ? this.parts.runtime.read(name).state !== 'stopped' : owner !== uuid
  }

  /** Lists names of guests that have, or had, processes on the host but have no configuration. */
  listUnknown(prefix: string): string[] {
    const { configs, runtime } = this.parts
    return runtime.listNames(prefix).filter((name) => configs.findUuid(name) === undefined)
  }
}
