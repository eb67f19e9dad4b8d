import { Type, type Static } from 'typebox'
import { limits } from '../../../../shared/guest-rules.js'
import { trimmed } from '../../../http/normalize.js'
import { CreateBodySchema } from '../create/create-body.js'
import { integerWithin, vcpuBounds } from '../setting-schemas.js'

const { host_id, owner_id } = CreateBodySchema.properties

/** Query of an import. Its settings replace those in the archive. */
export const ImportQuerySchema = Type.Object({
  name: Type.Optional(
    Type.String({ ...trimmed, maxLength: 63, description: 'Name of the container. Default: the name in the archive.' }),
  ),
  host_id,
  owner_id,
  vcpu: Type.Optional(
    Type.Number({ ...vcpuBounds, description: 'Number of virtual CPUs. Default: the number in the archive.' }),
  ),
  ram_mb: integerWithin(limits.ramMb, 'Memory in MiB. Default: the size in the archive.'),
  disk_gb: integerWithin(
    limits.diskGb,
    'Disk size in GiB. The archive must not be longer. Default: the size in the archive.',
  ),
  start: Type.Optional(
    Type.Boolean({
      description:
        '`true`: start the container after its creation. Default: `false`. Refused with `invalid_field` if the archive contains a firewall, which is not imported.',
    }),
  ),
})
export type ImportQuery = Static<typeof ImportQuerySchema>
