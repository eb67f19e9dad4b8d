import { Type, type Static } from 'typebox'
import { route, type Answer, type Route } from '../../../http/route.js'
import { placementErrors } from '../placement-row.js'
import { CreatedSchema, type CreationParts } from '../create/creations.js'
import { statusOf } from '../../../fleet/guest-status.js'
import { importArchive, type ImportedContainer } from './import-archive.js'
import { ImportQuerySchema } from './import-query.js'
import { ImportSlots } from './import-slots.js'

const { ssh_password: _kept, ...created } = CreatedSchema.properties

const ImportedSchema = Type.Object(
  {
    ...created,
    host_id: Type.String(),
    notes: Type.Array(Type.Object({ part: Type.String(), reason: Type.String() }), {
      description: 'Settings in the archive that the container has in changed form or does not have, with the reasons.',
    }),
  },
  { title: 'ImportedContainer' },
)

export function importRoute(parts: CreationParts): Route {
  const slots = new ImportSlots()
  return route({
    method: 'POST',
    path: '/containers/import',
    name: 'importContainer',
    scope: 'container:create',
    bound: 'refused',
    audit: 'container.import',
    tag: 'Containers',
    summary:
      'Creates a container from an archive of `GET /containers/{id}/export`. The archive is the body of the request, and is unpacked while it is received. Limits, tags, devices and port mappings are those in the archive. Host ports that are in use are replaced, see `notes`. The answer is sent when all files were received. Until then, the task `create` shows the received bytes. If the request fails or the client disconnects, the creation is undone. `Idempotency-Key` is ignored',
    query: ImportQuerySchema,
    uploads: ['application/x-tar', 'application/octet-stream', 'application/gzip', 'application/zstd'],
    data: ImportedSchema,
    statuses: [202],
    errors: [
      ...['image_invalid', 'disk_too_small', 'import_interrupted', 'request_timeout', 'name_conflict', 'port_conflict'],
      ...['resource_exhausted', ...placementErrors, 'not_found', 'agent_outdated', 'unsupported', 'invalid_state'],
      ...['host_offline', 'agent_timeout'],
    ],
    handle: (context) =>
      slots.run(context.caller.root, async () => {
        const imported = await importArchive(parts, context)
        const { guest, hostId, receivedBytes } = imported
        const detail = `id ${guest.id}, host ${hostId}, task ${context.operationId}, ${receivedBytes} bytes`
        context.audit({ target: guest.name, detail, containerUuid: guest.uuid })
        return answerOf(imported, context.operationId)
      }),
  })
}

function answerOf(
  { guest, hostId, notes }: ImportedContainer,
  operationId: string,
): Answer<Static<typeof ImportedSchema>> {
  return {
    status: 202,
    message: 'all files were received, and the container is being configured',
    data: {
      task_id: operationId,
      id: guest.id,
      uuid: guest.uuid,
      name: guest.name,
      status: statusOf({ guest, online: true }),
      action: 'create',
      ssh_port: guest.sshPort,
      host_id: hostId,
      notes: notes.map(({ part, reason }) => ({ part, reason })),
    },
  }
}
