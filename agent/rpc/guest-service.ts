import type { Logger } from 'pino'
import type { GuestServiceServer } from '../../proto/gen/berth/agent/v1/guest.js'
import { parseUuid } from '../guests/parse-create.js'
import type { GuestStore } from '../guests/store.js'
import type { HistoryReader } from '../history/history.js'
import type { GuestSampler } from '../metrics/guest-sampler.js'
import { encodeHistory, parseRange } from './encode-history.js'
import { encodeUsage } from './encode.js'
import { unary } from './unary.js'

export interface GuestServiceParts {
  store: GuestStore
  sampler: GuestSampler
  history: HistoryReader
  log: Logger
}

export function createGuestService({ store, sampler, history, log }: GuestServiceParts): GuestServiceServer {
  return {
    getGuestUsage: unary(log, 'read usage', ({ uuid }) =>
      encodeUsage(sampler.usage(store.get(parseUuid('uuid', uuid)).uuid)),
    ),
    getGuestHistory: unary(log, 'read history', ({ uuid, range }) => {
      const guest = store.get(parseUuid('uuid', uuid))
      return { history: encodeHistory(history.readGuest(guest.uuid, parseRange(range))) }
    }),
  }
}
