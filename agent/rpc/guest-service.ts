import type { Logger } from 'pino'
import type { GuestServiceServer } from '../../proto/gen/berth/agent/v1/guest.js'
import { parseUuid } from '../guests/create/parse-create.js'
import { parseAddress } from '../../shared/addresses.js'
import { invalidField } from '../../shared/errors.js'
import { networkLimits } from '../../shared/network-limits.js'
import type { GuestContext, PolicyKeeper } from '../guests/context.js'
import type { ConnectionDiagnosis } from '../guests/diagnosis/diagnose.js'
import type { HistoryReader } from '../history/history.js'
import type { GuestSampler } from '../metrics/guest-sampler.js'
import { encodeHistory, parseRange } from './encode-history.js'
import { encodeListedUsage, encodeUsage } from './encode.js'
import { unary } from './unary.js'

export interface GuestServiceParts {
  context: GuestContext
  policy: Pick<PolicyKeeper, 'readUse'>
  diagnosis: ConnectionDiagnosis
  sampler: GuestSampler
  history: HistoryReader
  log: Logger
}

export function createGuestService({
  context,
  policy,
  diagnosis,
  sampler,
  history,
  log,
}: GuestServiceParts): GuestServiceServer {
  const { store } = context
  return {
    getGuestUsage: unary(log, 'read usage', async ({ uuid }) =>
      encodeUsage(await sampler.freshUsage(store.get(parseUuid('uuid', uuid)))),
    ),
    listGuestUsage: unary(log, 'list usage', () => ({
      guests: store.list().map((record) => encodeListedUsage(record.uuid, sampler, policy.readUse(record))),
    })),
    getGuestHistory: unary(log, 'read history', ({ uuid, range }) => {
      const guest = store.get(parseUuid('uuid', uuid))
      return { history: encodeHistory(history.readGuest(guest.uuid, parseRange(range))) }
    }),
    getScreenshot: unary(log, 'take a screenshot', async ({ uuid }) => {
      const guest = store.get(parseUuid('uuid', uuid))
      return { image: await context.machines.driverOf(guest).screenshot(context.machines.of(guest)) }
    }),
    diagnoseConnection: unary(log, 'diagnose a connection', async ({ uuid, port, source }) => {
      const request = { uuid: parseUuid('uuid', uuid), port: parsePort(port), source: parseSource(source) }
      const { steps, listeningPorts, hostAddresses, ...way } = await diagnosis.run(request)
      const lists = { listeningPorts: [...listeningPorts], hostAddresses: [...hostAddresses] }
      return { ...way, steps: [...steps], ...lists }
    }),
  }
}

/** @throws {BerthError} `invalid_field` */
function parsePort(port: number): number {
  const { min, max } = networkLimits.port
  if (port < min || port > max) throw invalidField('port', `port: must be from ${min} to ${max}`)
  return port
}

/** @throws {BerthError} `invalid_field` */
function parseSource(source: string): string {
  if (source === '') return ''
  const address = parseAddress(source)
  if (!address) throw invalidField('source', 'source: must be an IP address')
  return address.text
}
