import type { Logger } from 'pino'
import type { GuestServiceServer } from '../../proto/gen/berth/agent/v1/guest.js'
import { BerthError } from '../../shared/errors.js'
import type { Guests, PowerOrder } from '../guests/guests.js'
import { parseCreate, parseRequester, parseUuid } from '../guests/parse-create.js'
import type { GuestSampler } from '../metrics/guest-sampler.js'
import type { OperationRecord } from '../operations/types.js'
import { encodeGuest, encodeOperation, encodeUsage } from './encode.js'
import { unary } from './unary.js'

export interface GuestServiceParts {
  guests: Guests
  sampler: GuestSampler
  log: Logger
}

export function createGuestService({ guests, sampler, log }: GuestServiceParts): GuestServiceServer {
  const { store } = guests.context
  const power =
    (order: (order: PowerOrder) => OperationRecord) =>
    (request: { operationId: string; uuid: string; requestedBy: string; force?: boolean }) => ({
      operation: encodeOperation(order(parsePower(request))),
      revision: store.changes.revision,
    })
  return {
    createGuest: unary(log, 'create guest', async (request) => {
      const { operation, record, password } = await guests.create(parseCreate(request))
      if (!record && operation.status !== 'done')
        throw new BerthError('conflict', 'invalid_state', operation.error || 'the creation was undone')
      return {
        operation: encodeOperation(operation),
        guest: record && encodeGuest(record),
        revision: store.changes.revision,
        sshPassword: password,
      }
    }),
    startGuest: unary(log, 'start guest', power(guests.start.bind(guests))),
    stopGuest: unary(log, 'stop guest', power(guests.stop.bind(guests))),
    restartGuest: unary(log, 'restart guest', power(guests.restart.bind(guests))),
    deleteGuest: unary(log, 'delete guest', power(guests.delete.bind(guests))),
    getGuestUsage: unary(log, 'read usage', ({ uuid }) =>
      encodeUsage(sampler.usage(store.get(parseUuid('uuid', uuid)).uuid)),
    ),
  }
}

function parsePower(request: {
  operationId: string
  uuid: string
  requestedBy: string
  force?: boolean
}): PowerOrder {
  return {
    operationId: parseUuid('operation_id', request.operationId),
    uuid: parseUuid('uuid', request.uuid),
    requestedBy: parseRequester(request.requestedBy),
    force: request.force ?? false,
  }
}
