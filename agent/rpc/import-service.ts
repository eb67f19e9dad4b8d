import type { Logger } from 'pino'
import type { ImportServiceServer } from '../../proto/gen/berth/agent/v1/import.js'
import type { ImportStore } from '../imports/import-store.js'
import type { Changes } from '../state/changes.js'
import { unary } from './unary.js'

export interface ImportServiceParts {
  readonly imports: Pick<ImportStore, 'refuse'>
  readonly changes: Changes
  readonly log: Logger
}

const maxMessageChars = 1000

export function createImportService({ imports, changes, log }: ImportServiceParts): ImportServiceServer {
  return {
    refuseImport: unary(log, 'refuse import', ({ id, message }) => {
      imports.refuse(id, message.slice(0, maxMessageChars))
      return { revision: changes.revision }
    }),
  }
}
