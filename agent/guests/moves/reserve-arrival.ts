import type { ExpectGuestRequest } from '../../../proto/gen/berth/agent/v1/move.js'
import { BerthError, conflict } from '../../../shared/errors.js'
import { parseGuestDevices } from '../../../shared/guest-devices.js'
import { checkInteger } from '../../../shared/field-checks.js'
import { checkGuestName, limits, maxGuestId } from '../../../shared/guest-rules.js'
import { checkPortMapping, type CheckedMapping } from '../../../shared/port-mapping-rules.js'
import type { PoolAddress } from '../../network/addresses/pool.js'
import type { SharedRange } from '../../network/addresses/shared-pools.js'
import { allocateIpv4, macOf } from '../../network/addresses/private-ipv4.js'
import { parseIpv4, parseSubnet } from '../../network/subnet.js'
import type { GuestContext } from '../context.js'
import { checkTemplateId, parseUuid, parseVirtualization } from '../create/parse-create.js'
import { parseAddresses, parseTime } from '../parse-settings.js'
import type { GuestRecord, PortMapping } from '../record/record.js'
import { unmeasuredSpace } from '../record/snapshots-and-backups.js'
import { checkLimits } from '../resources/limits.js'
import { spanOf } from '../resources/host-ports.js'
import type { ArrivalDetails } from './arrival-details.js'
import { planAddresses, planMappings, type MovedMapping } from './plan-arrival.js'

/** A checked description of a guest that another host wants to send. */
export interface ArrivingGuest extends Pick<
  GuestRecord,
  'id' | 'uuid' | 'name' | 'spec' | 'publicIpv4s' | 'ipv6Addresses' | 'os' | 'createdAtMs' | 'ipv4' | 'snapshotSpace'
> {
  readonly devices: GuestRecord['devices']
  readonly portMappings: readonly CheckedMapping[]
  /** Shared pools of the host that has the guest now. */
  readonly sharedPools: readonly SharedRange[]
}

/** @throws {BerthError} `missing_field`, `invalid_field` */
export function parseArriving({ guest, sharedPools }: ExpectGuestRequest): ArrivingGuest {
  if (!guest?.limits) throw new BerthError('invalid', 'missing_field', 'guest: is required', { field: 'guest' })
  checkGuestName(guest.name)
  checkTemplateId(guest.templateId)
  return {
    id: checkInteger('id', guest.id, { min: 1, max: maxGuestId }),
    uuid: parseUuid('uuid', guest.uuid),
    name: guest.name,
    spec: {
      virtualization: parseVirtualization(guest.virtualization),
      templateId: guest.templateId,
      limits: checkLimits(guest.limits),
    },
    publicIpv4s: parseAddresses('public_ipv4s', guest.publicIpv4s, 'ipv4'),
    ipv6Addresses: parseAddresses('ipv6_addresses', guest.ipv6Addresses, 'ipv6'),
    os: 'linux',
    devices: parseGuestDevices(guest.devices),
    createdAtMs: parseTime('created_at', guest.createdAtMs),
    snapshotSpace: { ...unmeasuredSpace, limitBytes: parseSpace(guest.snapshotSpaceLimitBytes) },
    ipv4: guest.ipv4,
    portMappings: guest.portMappings.map((mapping) => checkPortMapping(mapping)),
    sharedPools,
  }
}

function parseSpace(bytes: number): number {
  return checkInteger('space_limit_bytes', bytes, limits.snapshotSpaceBytes)
}

/** Parts of a reservation that are not in the guest's record. */
export type ReservedArrival = Required<Pick<ArrivalDetails, 'mappings' | 'kept'>>

/**
 * Inserts the guest with addresses, host ports and user ids of this host. Joins the caller's transaction.
 * @param listening result of `readListeningPorts`
 * @throws {BerthError} `name_conflict`, `resource_exhausted`
 */
export function reserveArrival(
  context: GuestContext,
  guest: ArrivingGuest,
  listening: ReadonlySet<string>,
): ReservedArrival {
  const { store, config } = context
  const slot = store.freeUserIdSlot(config.lxc.idmap_slots)
  if (slot === undefined)
    throw new BerthError('exhausted', 'resource_exhausted', 'the host has no free range of user ids')
  const { kept, ...addresses } = chooseAddresses(context, guest)
  const ipv4 = choosePrivateIpv4(context, guest.ipv4)
  const portMappings = chooseMappings(context, guest, { listening, reserved: [], addresses })
  store.insert({
    ...guest,
    ...addresses,
    portMappings,
    status: 'stopped',
    wanted: 'stopped',
    userIdSlot: slot,
    ipv4,
    mac: macOf(ipv4),
    login: null,
    hasPassword: false,
    firewall: { enabled: false, defaultAction: 'ACCEPT', rules: [] },
    traffic: { mode: 'total', monthlyGb: 0, inGb: 0, outGb: 0, action: 'stop', throttleMbps: 0, resetDay: 0 },
    expiresAtMs: 0,
  })
  return { kept, mappings: portMappings.map((to, index) => ({ from: mappingOf(guest.portMappings[index]!), to })) }
}

function mappingOf({ length: _length, ...mapping }: CheckedMapping): PortMapping {
  return mapping
}

interface MappingChoice {
  readonly listening: ReadonlySet<string>
  readonly reserved: readonly MovedMapping[]
  readonly addresses: Pick<GuestRecord, 'ipv6Addresses'>
}

/** Chooses host ports for mappings. Keeps the source's ports if they are free. Joins the caller's transaction. */
export function chooseMappings(
  { ports }: Pick<GuestContext, 'ports'>,
  { portMappings }: Pick<ArrivingGuest, 'portMappings'>,
  { listening, reserved, addresses }: MappingChoice,
): PortMapping[] {
  const choice = ports.openChoice(listening)
  const hasAddress = (hostIp: string): boolean => {
    try {
      ports.checkHostIp(hostIp)
      return !hostIp.includes(':') || addresses.ipv6Addresses.length > 0
    } catch {
      return false
    }
  }
  const wanted = planMappings(portMappings, reserved, { hasAddress, tryTake: (one) => choice.tryTake(spanOf(one)) })
  return ports.reserve({ wanted, listening, hasIpv6: addresses.ipv6Addresses.length > 0 })
}

interface PublicAddresses {
  readonly publicIpv4s: readonly string[]
  readonly ipv6Addresses: readonly string[]
}

/**
 * Chooses as many addresses as the guest has now. Addresses of a pool that both hosts serve stay. All other addresses
 * are new, because the guest's present host still uses the old ones.
 * @returns in `kept` the IPv4 addresses that stay, which join the pool of this host later
 */
export function chooseAddresses(
  { network }: Pick<GuestContext, 'network'>,
  guest: Pick<ArrivingGuest, 'publicIpv4s' | 'sharedPools'> & PublicAddresses,
): Pick<GuestRecord, 'publicIpv4s' | 'ipv6Addresses'> & { readonly kept: PoolAddress[] } {
  const kept = network.keep(guest.publicIpv4s, guest.sharedPools)
  const kept6 = network.keepIpv6(guest.ipv6Addresses, guest.sharedPools)
  const [ipv4Count, ipv6Count] = [guest.publicIpv4s.length - kept.length, guest.ipv6Addresses.length - kept6.length]
  const chosen = network.choose({ ipv4Count, publicIpv4s: [], ipv6Count, ipv6Addresses: kept6 })
  const stays = kept.map(({ address }) => address)
  return {
    publicIpv4s: planAddresses(guest.publicIpv4s, stays, chosen.publicIpv4s),
    ipv6Addresses: planAddresses(guest.ipv6Addresses, kept6, chosen.ipv6Addresses.slice(kept6.length)),
    kept,
  }
}

function choosePrivateIpv4({ store, config }: Pick<GuestContext, 'store' | 'config'>, wanted: string): string {
  const { first, last } = parseSubnet(config.network.subnet)
  const value = parseIpv4(wanted)
  const isTaken = store.changes.db.prepare('SELECT 1 FROM guests WHERE ipv4 = ?').get(wanted) !== undefined
  const fits = value !== undefined && value >= first && value <= last && !isTaken
  return fits ? wanted : allocateIpv4(store.changes.db, config.network.subnet)
}

/** Refuses a guest whose number of addresses has changed since the reservation. @throws {BerthError} `guest_changed` */
export function refuseOtherAddresses(sent: PublicAddresses, reserved: PublicAddresses): void {
  const isSame =
    sent.publicIpv4s.length === reserved.publicIpv4s.length &&
    sent.ipv6Addresses.length === reserved.ipv6Addresses.length
  if (!isSame) throw conflict('guest_changed', 'the public addresses of the container were changed during its move')
}
