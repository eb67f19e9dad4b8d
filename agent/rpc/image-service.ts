import type { Logger } from 'pino'
import type { ImageServiceServer } from '../../proto/gen/berth/agent/v1/image.js'
import type { ImageAdmin } from '../images/admin.js'
import { parseCustom } from '../images/parse-custom.js'
import type { TargetPolicy } from '../../shared/outbound-targets.js'
import type { Changes } from '../state/changes.js'
import { unary } from './unary.js'

export interface ImageServiceParts {
  readonly admin: ImageAdmin
  readonly policy: TargetPolicy
  readonly changes: Changes
  readonly log: Logger
}

export function createImageService({ admin, policy, changes, log }: ImageServiceParts): ImageServiceServer {
  return {
    cancelImageDownload: unary(log, 'cancel download', async ({ templateId }) => {
      const operationId = await admin.cancel(templateId)
      return { operationId, revision: changes.revision }
    }),
    deleteImage: unary(log, 'delete image', async ({ templateId }) => {
      const deleted = await admin.delete(templateId)
      return { deleted, revision: changes.revision }
    }),
    setImageEnabled: unary(log, 'enable image', ({ templateId, enabled }) => {
      admin.setEnabled(templateId, enabled)
      return { revision: changes.revision }
    }),
    addCustomImage: unary(log, 'add image', (request) => {
      admin.addCustom(parseCustom(request, policy))
      return { revision: changes.revision }
    }),
    removeCustomImage: unary(log, 'remove image', async ({ id }) => {
      await admin.removeCustom(id)
      return { revision: changes.revision }
    }),
  }
}
