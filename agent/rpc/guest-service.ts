import type { Logger } from 'pino'
import type { GuestServiceServer } from '../../proto/gen/berth/agent/v1/guest.js'
import { parseUuid } from '../guests/parse-create.js'
import type { GuestStore } from '../guests/store.js'
import type { GuestSampler } from '../metrics/guest-sampler.js'
import { encodeUsage } from './encode.js'
import { unary } from './unary.js'

export interface GuestServiceParts {
  store: GuestStore
  sampler: GuestSampler
  log: Logger
}

export function createGuestService({ store, sampler, log }: GuestServiceParts): GuestServiceServer {
  return {
    getGuestUsage: unary(log, 'read usage', ({ uuid }) =>
      encodeUsage(sampler.usage(store.get(parseUuid('uuid', uuid)).uuid)),
    ),
  }
}
