import type { Logger } from 'pino'
import type { HostDescription } from '../../proto/gen/berth/agent/v1/host.js'
import { listedOperations } from '../../shared/operation-limits.js'
import type { GuestRecord } from '../guests/record.js'
import type { GuestStore } from '../guests/store.js'
import type { ImageStore } from '../images/store.js'
import type { MetricsFeed } from '../metrics/feed.js'
import type { OperationStore } from '../operations/store.js'
import type { Changes } from '../state/changes.js'
import { encodeGuest, encodeOperation, encodeTemplate } from './encode.js'
import type { WatchSource } from './watch-service.js'

export interface WatchParts {
  changes: Changes
  guests: GuestStore
  operations: OperationStore
  images: ImageStore
  describe: () => HostDescription
  metrics: MetricsFeed
  log: Logger
}

/** What watchers see, read from the journal's stores. */
export function createWatchSource(parts: WatchParts): WatchSource {
  const { changes, guests, operations, images } = parts
  const guestEvent = (record: GuestRecord) => ({ $case: 'guest', value: encodeGuest(record) }) as const
  return {
    changes,
    list: (kind, since) => {
      switch (kind) {
        case 'guest':
          return guests.list(since).map((r) => ({ revision: r.revision, event: guestEvent(r) }))
        case 'operation':
          return operations
            .list(since)
            .filter((r, i) => since >= 0 || i < listedOperations || r.finishedAtMs === 0)
            .map((r) => ({
              revision: r.revision,
              event: { $case: 'operation', value: encodeOperation(r) } as const,
            }))
        case 'template':
          return images
            .templates()
            .filter((r) => r.revision > since)
            .map((r) => ({
              revision: r.revision,
              event: { $case: 'template', value: encodeTemplate(r) } as const,
            }))
      }
    },
    read: (kind, key) => {
      switch (kind) {
        case 'guest': {
          const record = guests.find(key)
          return record && guestEvent(record)
        }
        case 'operation': {
          const record = operations.find(key)
          return record && { $case: 'operation', value: encodeOperation(record) }
        }
        case 'template': {
          const record = images.find(key)
          return record && { $case: 'template', value: encodeTemplate(record) }
        }
      }
    },
    removal: (kind, key) => {
      switch (kind) {
        case 'guest':
          return { $case: 'guestRemoved', value: { uuid: key } }
        case 'operation':
          return { $case: 'operationRemoved', value: { id: key } }
        case 'template':
          return { $case: 'templateRemoved', value: { id: key } }
      }
    },
    describe: parts.describe,
    failed: (err) => parts.log.error({ err }, 'watch failed'),
    metrics: () => parts.metrics.latest,
    onMetrics: (listener) => parts.metrics.listen(listener),
  }
}
