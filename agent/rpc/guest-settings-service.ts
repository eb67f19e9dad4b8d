import type { Logger } from 'pino'
import type {
  Firewall as WireFirewall,
  GuestSettingsServiceServer,
} from '../../proto/gen/berth/agent/v1/network.js'
import { BerthError, invalidField } from '../../shared/errors.js'
import { limits } from '../../shared/guest-rules.js'
import { checkInteger } from '../../shared/field-checks.js'
import { networkLimits } from '../../shared/network-limits.js'
import type { HostCapacity } from '../guests/capacity.js'
import type { GuestContext, PolicyKeeper } from '../guests/context.js'
import { parseUuid } from '../guests/parse-create.js'
import type { GuestRecord } from '../guests/record.js'
import type { Target } from '../guests/settings/change.js'
import { setFirewall } from '../guests/settings/firewall.js'
import { assignIpv6 } from '../guests/settings/ipv6.js'
import { setLimits } from '../guests/settings/limits.js'
import { parseAddresses } from '../guests/settings/parse.js'
import { PolicySettings } from '../guests/settings/policy.js'
import { PortMappings } from '../guests/settings/port-mappings.js'
import { setSnapshotLimit } from '../guests/settings/snapshot-limit.js'
import { setSnapshotSchedule } from '../guests/settings/snapshot-schedule.js'
import { encodeMapping, encodeTrafficLimit } from './encode.js'
import { unary } from './unary.js'

export interface GuestSettingsParts {
  context: GuestContext
  policy: PolicyKeeper
  capacity: HostCapacity
  log: Logger
}

export function createGuestSettingsService(parts: GuestSettingsParts): GuestSettingsServiceServer {
  return {
    ...portMethods(parts),
    ...networkMethods(parts),
    ...policyMethods(parts),
    ...snapshotMethods(parts),
  }
}

function portMethods({
  context,
  log,
}: GuestSettingsParts): Pick<
  GuestSettingsServiceServer,
  'addPortMapping' | 'updatePortMapping' | 'removePortMapping' | 'findFreePorts'
> {
  const mappings = new PortMappings(context)
  const answer = ({ portMappings, revision }: GuestRecord) => ({
    mappings: portMappings.map(encodeMapping),
    revision,
  })
  return {
    addPortMapping: unary(log, 'add port mapping', async (request) => {
      const wanted = getMessage('mapping', request.mapping)
      return answer(await mappings.add(targetOf(request), wanted))
    }),
    updatePortMapping: unary(log, 'change port mapping', async (request) => {
      const change = getMessage('change', request.change)
      return answer(await mappings.update(targetOf(request), request.index, change))
    }),
    removePortMapping: unary(log, 'remove port mapping', async (request) =>
      answer(await mappings.remove(targetOf(request), request.index)),
    ),
    findFreePorts: unary(log, 'find free ports', async ({ protocol, hostIp, count }) => {
      if (protocol !== 'tcp' && protocol !== 'udp')
        throw invalidField('protocol', 'protocol: must be tcp or udp')
      const most = { min: 1, max: limits.portMappings.max }
      return {
        ports: await mappings.findFree({ protocol, hostIp, count: checkInteger('count', count, most) }),
      }
    }),
  }
}

function networkMethods({
  context,
  capacity,
  log,
}: GuestSettingsParts): Pick<
  GuestSettingsServiceServer,
  'getFirewall' | 'setFirewall' | 'setLimits' | 'assignIpv6'
> {
  return {
    getFirewall: unary(log, 'read firewall', ({ uuid }) => {
      const { firewall, revision } = context.store.get(parseUuid('uuid', uuid))
      return { firewall: encodeFirewall(firewall), revision }
    }),
    setFirewall: unary(log, 'set firewall', async (request) => {
      const wanted = getMessage('firewall', request.firewall)
      const { firewall, revision } = await setFirewall(context, targetOf(request), wanted)
      return { firewall: encodeFirewall(firewall), revision }
    }),
    setLimits: unary(log, 'set limits', async ({ uuid, ifRevision, ...wanted }) => {
      const record = await setLimits(context, targetOf({ uuid, ifRevision }), { wanted, capacity })
      return { limits: record.spec.limits, revision: record.revision }
    }),
    assignIpv6: unary(log, 'assign IPv6', async (request) => {
      const order = {
        count: checkInteger('ipv6_count', request.count, networkLimits.addresses),
        addresses: parseAddresses('ipv6_addresses', request.addresses, 'ipv6'),
      }
      const { ipv6Addresses, revision } = await assignIpv6(context, targetOf(request), order)
      return { ipv6Addresses, revision }
    }),
  }
}

function policyMethods({
  context,
  policy,
  log,
}: GuestSettingsParts): Pick<
  GuestSettingsServiceServer,
  'setTrafficLimit' | 'resetTraffic' | 'getTraffic' | 'setExpiry'
> {
  const settings = new PolicySettings(context, policy)
  return {
    setTrafficLimit: unary(log, 'set traffic limit', async ({ uuid, ifRevision, ...wanted }) => {
      const record = await settings.setTrafficLimit(targetOf({ uuid, ifRevision }), wanted)
      return { traffic: encodeTrafficLimit(record.traffic), revision: record.revision }
    }),
    resetTraffic: unary(log, 'reset traffic', async (request) => {
      const { revision } = await settings.resetTraffic(targetOf(request))
      return { revision }
    }),
    getTraffic: unary(log, 'read traffic', ({ uuid }) => {
      const record = context.store.get(parseUuid('uuid', uuid))
      return { limit: encodeTrafficLimit(record.traffic), ...policy.readUse(record) }
    }),
    setExpiry: unary(log, 'set expiry', async (request) => {
      const { revision } = await settings.setExpiry(targetOf(request), request.expiresAtMs)
      return { revision }
    }),
  }
}

function snapshotMethods({
  context,
  log,
}: GuestSettingsParts): Pick<GuestSettingsServiceServer, 'setSnapshotLimit' | 'setSnapshotSchedule'> {
  return {
    setSnapshotLimit: unary(log, 'set snapshot limit', async (request) => {
      const { snapshotLimit, revision } = await setSnapshotLimit(context, targetOf(request), request)
      return { snapshotLimit, revision }
    }),
    setSnapshotSchedule: unary(log, 'set snapshot schedule', async (request) => {
      const { enabled, intervalHours, time, retention, requestedBy: createdBy } = request
      const wanted = { enabled, intervalHours, time, retention, createdBy }
      const { snapshotSchedule, revision } = await setSnapshotSchedule(context, targetOf(request), wanted)
      return { schedule: snapshotSchedule, revision }
    }),
  }
}

function targetOf(request: { uuid: string; ifRevision: number; operationId?: string }): Target {
  const { uuid, ifRevision, operationId = '' } = request
  return {
    uuid: parseUuid('uuid', uuid),
    ifRevision,
    operationId: operationId === '' ? '' : parseUuid('operation_id', operationId),
  }
}

/** @throws {BerthError} `missing_field` */
function getMessage<Message>(field: string, message: Message | undefined): Message {
  if (message === undefined) throw new BerthError('invalid', 'missing_field', `${field}: missing`, { field })
  return message
}

function encodeFirewall({ enabled, defaultAction, rules }: GuestRecord['firewall']): WireFirewall {
  return { enabled, defaultAction, rules: [...rules] }
}
