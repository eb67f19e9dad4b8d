import type { Logger } from 'pino'
import type {
  ChangeSettingRequest,
  ChangeSettingResponse,
  Firewall as WireFirewall,
  GuestSettingsServiceServer,
} from '../../proto/gen/berth/agent/v1/network.js'
import { BerthError, invalidField } from '../../shared/errors.js'
import { checkInteger } from '../../shared/field-checks.js'
import { limits } from '../../shared/guest-rules.js'
import type { GuestContext, PolicyKeeper } from '../guests/context.js'
import { parseUuid } from '../guests/create/parse-create.js'
import type { GuestRecord } from '../guests/record/record.js'
import type { Target } from '../guests/settings/change.js'
import type { SettingKind, SettingKinds, WireChange } from '../guests/settings/kinds.js'
import { PortMappings } from '../guests/settings/port-mappings.js'
import { encodeGuest } from './encode.js'
import { unary } from './unary.js'

export interface GuestSettingsParts {
  context: GuestContext
  policy: PolicyKeeper
  kinds: SettingKinds
  log: Logger
}

export function createGuestSettingsService(parts: GuestSettingsParts): GuestSettingsServiceServer {
  const { context, policy, kinds, log } = parts
  const mappings = new PortMappings(context)
  return {
    changeSetting: unary(log, 'change setting', async (request) => encode(await change(kinds, request))),
    findFreePorts: unary(log, 'find free ports', async ({ protocol, hostIp, count }) => {
      if (protocol !== 'tcp' && protocol !== 'udp') throw invalidField('protocol', 'protocol: must be tcp or udp')
      const most = { min: 1, max: limits.portMappings.max }
      return {
        ports: await mappings.findFree({ protocol, hostIp, count: checkInteger('count', count, most) }),
      }
    }),
    getFirewall: unary(log, 'read firewall', ({ uuid }) => {
      const { firewall, revision } = context.store.get(parseUuid('uuid', uuid))
      return { firewall: encodeFirewall(firewall), revision }
    }),
    getTraffic: unary(log, 'read traffic', ({ uuid }) => {
      const record = context.store.get(parseUuid('uuid', uuid))
      return { limit: record.traffic, ...policy.readUse(record) }
    }),
  }
}

/** @throws {BerthError} `missing_field` if the request has no change that this agent knows */
function change(kinds: SettingKinds, request: ChangeSettingRequest): Promise<GuestRecord> {
  const { change: wanted } = request
  if (!wanted) throw new BerthError('invalid', 'missing_field', 'change: is required', { field: 'change' })
  const kind = kinds[wanted.$case] as SettingKind<WireChange['$case']>
  return kind(targetOf(request), wanted.value)
}

function targetOf({ uuid, ifRevision, operationId, portLimit }: ChangeSettingRequest): Target {
  return {
    uuid: parseUuid('uuid', uuid),
    ifRevision,
    portLimit,
    operationId: operationId === '' ? '' : parseUuid('operation_id', operationId),
  }
}

function encode(record: GuestRecord): ChangeSettingResponse {
  return { guest: encodeGuest(record), firewall: encodeFirewall(record.firewall) }
}

function encodeFirewall({ enabled, defaultAction, rules }: GuestRecord['firewall']): WireFirewall {
  return { enabled, defaultAction, rules: [...rules] }
}
