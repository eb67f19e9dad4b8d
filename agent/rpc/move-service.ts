import type { Logger } from 'pino'
import type { MoveServiceServer } from '../../proto/gen/berth/agent/v1/move.js'
import type { GuestContext } from '../guests/context.js'
import { parseUuid } from '../guests/create/parse-create.js'
import type { Arrivals } from '../guests/moves/arrivals.js'
import { describeLive } from '../guests/moves/live-target.js'
import type { StartGate } from '../guests/ownership/start-gate.js'
import type { StandbyCopies } from '../guests/standby/standby-copies.js'
import type { StandbySender } from '../guests/standby/standby-sender.js'
import type { Changes } from '../state/changes.js'
import { encodeMapping } from './encode.js'
import { unary } from './unary.js'

export interface MoveServiceParts {
  readonly arrivals: Arrivals
  readonly context: Pick<GuestContext, 'store' | 'machines'>
  readonly changes: Changes
  readonly startGate: StartGate
  readonly standbys: { readonly copies: StandbyCopies; readonly sender: StandbySender }
  readonly log: Logger
}

export function createMoveService(parts: MoveServiceParts): MoveServiceServer {
  const { arrivals, context, changes, startGate, standbys, log } = parts
  return {
    expectGuest: unary(log, 'expect a guest', async (request) => {
      const { portMappings, ...addresses } = await arrivals.reservations.expect(request)
      return { ...addresses, portMappings: portMappings.map(encodeMapping) }
    }),
    describeLive: unary(log, 'describe a running guest', async ({ uuid }) => ({
      facts: await describeLive(context, parseUuid('uuid', uuid)),
    })),
    appointOwner: unary(log, 'appoint the owner', async (request) => {
      await arrivals.decisions.appoint(request)
      return { revision: changes.revision }
    }),
    confirmOwners: unary(log, 'confirm the owners of guests', async ({ others, hasOtherHosts }) => {
      for (const { uuid, generation } of others)
        await arrivals.decisions.appoint({ uuid, generation, isOwner: false, keepCopy: true })
      startGate.open(hasOtherHosts)
      return {}
    }),
    expectStandby: unary(log, 'expect a standby', async (request) => {
      await standbys.copies.expect(request)
      return {}
    }),
    syncStandby: unary(log, 'send an increment', (request) => {
      standbys.sender.begin(request)
      return {}
    }),
    listStandbys: unary(log, 'list standbys', async () => {
      const copies = await standbys.copies.list()
      return { copies: copies.map(({ snapshot, ...copy }) => ({ ...copy, complete: snapshot !== undefined })) }
    }),
    removeStandby: unary(log, 'remove a standby', async ({ uuid, standbyId }) => {
      await standbys.copies.remove(parseUuid('uuid', uuid), parseUuid('standby_id', standbyId))
      return {}
    }),
  }
}
