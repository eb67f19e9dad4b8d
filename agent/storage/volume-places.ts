import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { BerthError } from '../../shared/errors.js'
import { templateIdPattern, uuidPattern } from '../../shared/guest-rules.js'
import type { Pool } from './pool.js'

const uuid = new RegExp(uuidPattern)
const template = new RegExp(templateIdPattern)
const snapshotId = /^[a-z0-9][a-z0-9-]{0,62}$/
const nextSuffix = '.next'
const rescueSuffix = '.rescue'

/** Names and paths of guests' volumes and snapshots in the pool. */
export class VolumePlaces {
  constructor(protected readonly pool: Pool) {}

  /** Path of the guest's volume, even if it does not exist. @throws {BerthError} `invalid_field` */
  pathOf(guest: string): string {
    return join(this.pool.guests, checkUuid(guest))
  }

  /** Path of the prepared volume, which `exchange` puts in place of the guest's volume. */
  nextPathOf(guest: string): string {
    return `${this.pathOf(guest)}${nextSuffix}`
  }

  rescuePathOf(guest: string): string {
    return `${this.pathOf(guest)}${rescueSuffix}`
  }

  /** Path of the image, even if it does not exist. @throws {BerthError} `invalid_field` */
  imagePathOf(templateId: string): string {
    if (!isTemplateId(templateId)) throw new BerthError('invalid', 'invalid_field', `not a template id: ${templateId}`)
    return join(this.pool.images, templateId)
  }

  /** Path of the guest's snapshot, even if it does not exist. @throws {BerthError} `invalid_field` */
  snapshotPathOf(guest: string, id: string): string {
    if (!snapshotId.test(id)) throw new BerthError('invalid', 'invalid_field', `not a snapshot id: ${id}`)
    return join(this.snapshotsOf(guest), id)
  }

  async list(): Promise<string[]> {
    const [volumes, snapshots] = await Promise.all([namesIn(this.pool.guests), namesIn(this.pool.snapshots)])
    const guests = [...volumes.map((name) => name.replace(/\.(next|rescue)$/, '')), ...snapshots]
    return [...new Set(guests)].filter((name) => uuid.test(name))
  }

  /** Lists guests that have a volume. Skips prepared volumes and rescue systems, so that each guest appears once. */
  protected async listVolumes(): Promise<string[]> {
    return (await namesIn(this.pool.guests)).filter((name) => uuid.test(name))
  }

  async listSnapshots(guest: string): Promise<string[]> {
    return (await namesIn(this.snapshotsOf(guest))).filter((name) => snapshotId.test(name))
  }

  /** Directory of the guest's snapshots, even if it does not exist. */
  snapshotsOf(guest: string): string {
    return join(this.pool.snapshots, checkUuid(guest))
  }
}

export function isTemplateId(id: string): boolean {
  return template.test(id)
}

function checkUuid(guest: string): string {
  if (!uuid.test(guest)) throw new BerthError('invalid', 'invalid_field', `not the UUID of a guest: ${guest}`)
  return guest
}

/** Returns the names in a directory; [] if it does not exist. */
export async function namesIn(directory: string): Promise<string[]> {
  try {
    return await readdir(directory)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return []
    throw error
  }
}
