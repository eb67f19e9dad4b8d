import { BerthError, invalidField } from '../../../shared/errors.js'
import { parseGuestDevices, type GuestDevice } from '../../../shared/guest-devices.js'
import { checkInteger, inField } from '../../../shared/field-checks.js'
import { checkFirewall, type Firewall } from '../../../shared/firewall-rules.js'
import {
  checkGuestName,
  isDescription,
  limits as ranges,
  maxGuestId,
  maxUserDataLength,
  templateIdPattern,
  uuidPattern,
} from '../../../shared/guest-rules.js'
import type { GuestSpec as WireSpec } from '../../../proto/gen/berth/agent/v1/guest.js'
import type { DriverKind } from '../../drivers/drivers.js'
import type { BackupScheduleChange } from '../../../proto/gen/berth/agent/v1/network.js'
import type { CreateOrder } from '../../../proto/gen/berth/agent/v1/operation.js'
import { noLabels, parseTags, type GuestLabels } from '../../../shared/label-rules.js'
import { networkLimits } from '../../../shared/network-limits.js'
import { noPlacement, parsePlacement, type PlacementRules } from '../../../shared/placement-rules.js'
import { checkPortMapping, type CheckedMapping } from '../../../shared/port-mapping-rules.js'
import { parseLogin, type LoginRequest } from './parse-login.js'
import { parseAddresses, parseTime, parseTrafficLimit } from '../parse-settings.js'
import { checkLimits } from '../resources/limits.js'
import { checkBackupSchedule } from '../schedule/backup-schedule.js'
import type { GuestLimits, TrafficLimit } from '../record/record.js'

/** A creation request that passed every check. A host port of 0 means that the agent still has to choose a port. */
export interface CreateRequest {
  id: number
  uuid: string
  name: string
  virtualization: DriverKind
  templateId: string
  limits: GuestLimits
  portMappings: CheckedMapping[]
  /** Number of IPv4 addresses to take from the host's pools, in addition to `publicIpv4s`. */
  ipv4Count: number
  publicIpv4s: string[]
  ipv6Count: number
  ipv6Addresses: string[]
  traffic: TrafficLimit
  /** Time in ms since 1970; 0 means never. */
  expiresAtMs: number
  snapshotLimit: number
  login: LoginRequest
  /** Id of the import that supplies the files. Empty: the disk is made from the template. */
  importId: string
  /** User data for cloud-init. Empty: the customer sent no user data. */
  userData: string
  start: boolean
  devices: GuestDevice[]
  placement: PlacementRules
  labels: GuestLabels
  /** Undefined: the guest has no firewall. */
  firewall: Firewall | undefined
  /** Undefined: the guest has no backup schedule. */
  backupSchedule: BackupScheduleChange | undefined
}

/**
 * Checks a creation request. The gateway has applied the same rules, but the agent does not rely on this.
 * @throws {BerthError} `invalid_field`, `missing_field`, `unsupported`
 */
export function parseCreate(request: CreateOrder): CreateRequest {
  const { spec } = request
  if (!spec?.limits) throw new BerthError('invalid', 'missing_field', 'spec: is required', { field: 'spec' })
  checkGuestName(request.name)
  const isImport = spec.importId !== ''
  if (!isImport) checkTemplateId(spec.templateId)
  else if (spec.virtualization !== 'lxc')
    throw new BerthError('invalid', 'unsupported', 'import_id: only available for containers', { field: 'import_id' })
  return {
    id: checkInteger('id', request.id, { min: 1, max: maxGuestId }),
    uuid: parseUuid('uuid', request.uuid),
    name: request.name,
    virtualization: parseVirtualization(spec.virtualization),
    templateId: isImport ? importedTemplate : spec.templateId,
    limits: checkLimits(spec.limits),
    portMappings: parseMappings(spec),
    ipv4Count: checkInteger('ipv4_count', spec.ipv4Count, networkLimits.addresses),
    publicIpv4s: parseAddresses('public_ipv4s', spec.publicIpv4s, 'ipv4'),
    ipv6Count: checkInteger('ipv6_count', spec.ipv6Count, networkLimits.addresses),
    ipv6Addresses: parseAddresses('ipv6_addresses', spec.ipv6Addresses, 'ipv6'),
    traffic: parseTrafficLimit(spec.traffic),
    expiresAtMs: parseTime('expires_at', spec.expiresAtMs),
    snapshotLimit: checkInteger('snapshot_limit', spec.snapshotLimit, ranges.snapshots),
    login: isImport ? { kind: 'kept' } : parseLogin(spec),
    importId: isImport ? parseUuid('import_id', spec.importId) : '',
    userData: parseUserData(spec),
    start: spec.start,
    devices: parseGuestDevices(spec.devices),
    placement: parsePlacement(spec.placement ?? noPlacement),
    labels: { ...noLabels, tags: parseTags(spec.tags) },
    ...parseSettings(request),
  }
}

/** Template id of guests that were imported. No template has this id, so nothing can be created from it. */
export const importedTemplate = 'imported'

/** Checks that the value is a lower-case uuid. @throws {BerthError} `invalid_field` */
export function parseUuid(field: string, value: string): string {
  if (!new RegExp(uuidPattern).test(value)) throw invalidField(field, `${field}: must be a lower-case uuid`)
  return value
}

/** Checks that the requester's name, which the task list shows, is one printable line. */
export function parseRequester(value: string): string {
  if (!isDescription(value)) throw invalidField('requested_by', 'requested_by: must be one line')
  return value
}

/** Checks the format of a template id. @throws {BerthError} `invalid_field` */
export function checkTemplateId(id: string): void {
  if (!new RegExp(templateIdPattern).test(id))
    throw invalidField('template_id', 'template_id: must be an id of lower-case letters, digits, "." and "-"')
}

/** @throws {BerthError} `invalid_field` */
export function parseVirtualization(value: string): DriverKind {
  if (value === 'lxc' || value === 'kvm') return value
  throw invalidField('virtualization', 'virtualization: must be lxc or kvm')
}

/** Checks the user data. @throws {BerthError} `unsupported` for a container, `invalid_field` */
function parseUserData({ userData, virtualization }: WireSpec): string {
  if (userData !== '' && virtualization !== 'kvm')
    throw new BerthError('invalid', 'unsupported', 'user_data: only available for virtual machines', {
      field: 'user_data',
    })
  if (userData.length > maxUserDataLength)
    throw invalidField('user_data', `user_data: must have at most ${maxUserDataLength} characters`)
  return userData
}

/** Checks the firewall and the backup schedule of a new guest. @throws {BerthError} `invalid_field` */
function parseSettings({
  firewall,
  backupSchedule: schedule,
}: CreateOrder): Pick<CreateRequest, 'firewall' | 'backupSchedule'> {
  return {
    firewall: firewall && inField('firewall', () => checkFirewall(firewall)),
    backupSchedule: schedule && inField('backup_schedule', () => checkBackupSchedule(schedule)),
  }
}

function parseMappings(spec: WireSpec): CheckedMapping[] {
  if (!spec.assignNat) {
    if (spec.portMappings.length > 0)
      throw invalidField('port_mappings', 'port_mappings: must be empty if assign_nat is false')
    return []
  }
  if (spec.portMappings.length > ranges.portMappings.max)
    throw invalidField('port_mappings', `port_mappings: at most ${ranges.portMappings.max} mappings are allowed`)
  return spec.portMappings.map((mapping) => checkPortMapping(mapping))
}
