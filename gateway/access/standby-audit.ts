import { randomUUID } from 'node:crypto'
import type { GuestView } from '../fleet/contract.js'
import type { AuditLog } from './contract.js'
import { systemActor } from './shown-actor.js'

/** Returns a function that writes an audit entry when Berth has ended the standby of a guest. */
export function auditStandbyEnd(audit: AuditLog): (guest: GuestView, reason: string) => Promise<void> {
  return async ({ guest: { id, uuid, name } }, reason) => {
    const entry = await audit.begin({
      action: 'container.standby_remove',
      caller: { ref: systemActor, user: systemActor },
      address: '',
      requestId: randomUUID(),
      target: name,
    })
    const detail = `id ${id}, automatic, the container moved to the host of its standby, and ${reason}`
    await audit.finish(entry, { success: true, target: name, detail, containerUuid: uuid })
  }
}
