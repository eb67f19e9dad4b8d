import { randomUUID } from 'node:crypto'
import { BerthError } from '../../../shared/errors.js'
import type { Firewall } from '../../../shared/firewall-rules.js'
import { inField } from '../../../shared/field-checks.js'
import { allocateIpv4, macOf } from '../../network/addresses/private-ipv4.js'
import type { BackupContext, GuestContext } from '../context.js'
import type { CreateRequest } from './parse-create.js'
import { loginOf } from './parse-login.js'
import { openFirewall, type GuestRecord } from '../record/record.js'
import type { GuestInsert } from '../record/guest-store.js'
import { noBackupSchedule, type BackupSchedule } from '../record/snapshots-and-backups.js'
import { planBackupSchedule } from '../schedule/backup-schedule.js'
import type { LoginVault } from '../login-vault.js'

/**
 * Writes a new guest to the journal, with all resources that it takes from the host's pools. Runs in the transaction
 * that submits the creation.
 * @throws {BerthError} `name_conflict`, `port_conflict`, `address_in_use`, `resource_exhausted`
 */
export function reserveGuest(context: BackupContext, order: CreateRequest, facts: NetworkFacts): void {
  const { virtualization, templateId, limits, start, firewall, importId: _, ...kept } = order
  context.store.insert({
    ...kept, // the store ignores the fields of `kept` that it does not know
    spec: { virtualization, templateId, limits },
    os: context.images.osOf(templateId),
    status: 'creating',
    wanted: start ? 'running' : 'stopped',
    userIdSlot: chooseUserIdSlot(context),
    ...chooseNetwork(context, order, facts),
    firewall: withIds(firewall ?? openFirewall),
    backupSchedule: chooseSchedule(context, order),
    ...sealLogin(context.logins, order),
    createdAtMs: context.now(),
  })
}

function chooseUserIdSlot({ store, config }: Pick<GuestContext, 'config' | 'store'>): number {
  const slot = store.freeUserIdSlot(config.lxc.idmap_slots)
  if (slot === undefined)
    throw new BerthError(
      'exhausted',
      'resource_exhausted',
      'the host has no free range of user ids for another container',
    )
  return slot
}

/** Gives each rule a new id. Ids in the request are ignored. */
function withIds(firewall: Firewall): Firewall {
  return { ...firewall, rules: firewall.rules.map((rule) => ({ ...rule, id: randomUUID() })) }
}

/** @throws {BerthError} `missing_field` */
function chooseSchedule(context: BackupContext, { uuid, backupSchedule: wanted }: CreateRequest): BackupSchedule {
  const old = noBackupSchedule
  return wanted ? inField('backup_schedule', () => planBackupSchedule(context, uuid, { old, wanted })) : old
}

export type ChosenAddresses = ReturnType<GuestContext['network']['choose']>

export interface NetworkFacts {
  /** Result of `readListeningPorts`. */
  readonly listening: ReadonlySet<string>
  /** Public addresses of the guest. Undefined: `network.choose` chooses them from the order. */
  readonly addresses: ChosenAddresses | undefined
}

type Network = Pick<GuestRecord, 'ipv4' | 'mac' | 'publicIpv4s' | 'ipv6Addresses' | 'portMappings'>

function chooseNetwork(context: GuestContext, order: CreateRequest, facts: NetworkFacts): Network {
  const { store, config, network, ports } = context
  const ipv4 = allocateIpv4(store.changes.db, config.network.subnet)
  const { listening, addresses = network.choose(order) } = facts
  const { publicIpv4s, ipv6Addresses } = addresses
  const hasIpv6 = ipv6Addresses.length > 0
  return {
    ipv4,
    mac: macOf(ipv4),
    publicIpv4s: [...publicIpv4s],
    ipv6Addresses: [...ipv6Addresses],
    portMappings: ports.reserve({ wanted: order.portMappings, listening, hasIpv6 }),
  }
}

function sealLogin(logins: LoginVault, order: CreateRequest): Pick<GuestInsert, 'login' | 'hasPassword'> {
  const userData = order.userData === '' ? {} : { userData: order.userData }
  if (order.login.kind === 'kept') return { login: null, hasPassword: false }
  const login = { ...loginOf(order.login), ...userData }
  return { login: logins.seal(order.uuid, login), hasPassword: login.password !== undefined }
}
