import { conflict } from '../../../shared/errors.js'
import type { Machine } from '../machine.js'

export interface GuestNamesParts {
  readonly paths: { nameOf(id: number): string }
  readonly configs: { findUuid(name: string): string | undefined }
  readonly runtime: { listNames(prefix: string): string[]; read(name: string): { readonly state: string } }
}

/**
 * Maps guest ids to names on the host. A name contains only the guest's id. An older guest with the same id can still
 * be running. Therefore each method checks which guest uses the name.
 */
export class GuestNames {
  constructor(private readonly parts: GuestNamesParts) {}

  /** Returns the guest's name. @throws {BerthError} `guest_foreign` if another guest's configuration uses the name */
  nameOf({ id, uuid }: Machine): string {
    const name = this.parts.paths.nameOf(id)
    const owner = this.parts.configs.findUuid(name)
    if (owner === undefined || owner === uuid) return name
    throw conflict('guest_foreign', `the guest name ${name} belongs to another guest on this host: ${owner}`)
  }

  /** Like `nameOf`, but also throws `guest_foreign` if processes of a guest without a configuration use the name. */
  freeNameOf(machine: Machine): string {
    const name = this.nameOf(machine)
    if (!this.isForeign(machine)) return name
    throw conflict(
      'guest_foreign',
      `the guest name ${name} is taken: processes of a guest that is not configured on this host still run under it`,
    )
  }

  /**
   * True if another guest uses this guest's name on the host. If the journal was lost, ids (and with them names) are
   * reused, even if old guests still run.
   */
  isForeign({ id, uuid }: Machine): boolean {
    const name = this.parts.paths.nameOf(id)
    const owner = this.parts.configs.findUuid(name)
    return owner === undefined ? this.parts.runtime.read(name).state !== 'stopped' : owner !== uuid
  }

  /** Lists the names of guests without a configuration that still have processes or a cgroup on the host. */
  listUnknown(prefix: string): string[] {
    const { configs, runtime } = this.parts
    return runtime.listNames(prefix).filter((name) => configs.findUuid(name) === undefined)
  }
}
