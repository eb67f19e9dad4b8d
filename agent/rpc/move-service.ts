import type { Logger } from 'pino'
import type { MoveServiceServer } from '../../proto/gen/berth/agent/v1/move.js'
import type { Arrivals } from '../guests/moves/arrivals.js'
import type { Changes } from '../state/changes.js'
import { encodeMapping } from './encode.js'
import { unary } from './unary.js'

export interface MoveServiceParts {
  readonly arrivals: Arrivals
  readonly changes: Changes
  readonly log: Logger
}

export function createMoveService({ arrivals, changes, log }: MoveServiceParts): MoveServiceServer {
  return {
    expectGuest: unary(log, 'expect a guest', async (request) => {
      const { portMappings, ...addresses } = await arrivals.expect(request)
      return { ...addresses, portMappings: portMappings.map(encodeMapping) }
    }),
    appointOwner: unary(log, 'appoint the owner', async (request) => {
      await arrivals.appoint(request)
      return { revision: changes.revision }
    }),
  }
}
