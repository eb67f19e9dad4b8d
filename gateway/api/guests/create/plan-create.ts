import { BerthError, invalidField } from '../../../../shared/errors.js'
import type { TimeFormat } from '../../../../shared/time.js'
import { checkGuestName, defaultSnapshotLimit } from '../../../../shared/guest-rules.js'
import type { GuestSpec, TrafficLimit } from '../../../../proto/gen/berth/agent/v1/guest.js'
import { parseGuestDevices } from '../../../../shared/guest-devices.js'
import { parseTags } from '../../../../shared/label-rules.js'
import { parseUserData } from '../../../../shared/first-boot/user-data.js'
import type { CreateBody } from './create-body.js'
import { planRules } from '../placement-row.js'
import { virtualizationName } from '../guest-row.js'
import { planLogin, type Os } from './plan-login.js'
import { planMappings } from './plan-mappings.js'
import { planAddresses, planInitialRates, planTraffic } from '../plan-settings.js'

/**
 * Converts the validated body of a creation.
 * @param os operating system of the template
 * @throws {BerthError} `invalid_field`, `unsupported` with the first field that this version does not support
 */
export function planCreate(body: CreateBody, time: TimeFormat, os: Os = 'linux'): { name: string; spec: GuestSpec } {
  checkName(body.name)
  const login = planLogin(body, os)
  checkUserData(body, os)
  return {
    name: body.name,
    spec: {
      virtualization: virtualizationName(body.virtualization ?? 'lxc'),
      templateId: body.template_id,
      limits: {
        vcpuMilli: Math.round((body.vcpu ?? 1) * 1000),
        ramMb: body.ram_mb ?? 512,
        diskGb: body.disk_gb ?? 10,
        ...planInitialRates(body),
      },
      assignNat: body.assign_nat ?? true,
      portMappings: planMappings(body, os),
      ...planAllAddresses(body),
      ...login,
      start: body.start ?? true,
      expiresAtMs: time.parseField('expires_at', body.expires_at ?? ''),
      traffic: planInitialTraffic(body),
      snapshotLimit: body.snapshot_limit ?? defaultSnapshotLimit,
      userData: body.user_data ?? '',
      devices: planDevices(body),
      placement: planRules(body.placement),
      tags: parseTags(body.tags ?? []),
      importId: '',
    },
  }
}

/** Names that containers cannot have, because their path `/containers/NAME` is another route. */
const takenPaths = ['list']

/** @throws {BerthError} `invalid_field` */
export function checkName(name: string): void {
  checkGuestName(name)
  if (takenPaths.includes(name)) throw invalidField('name', `name: ${name} is reserved`)
}

/** Rejects user data for LXC containers, and user data that the operating system of a virtual machine would ignore. */
function checkUserData({ virtualization, user_data: userData = '' }: CreateBody, os: Os): void {
  if (userData === '') return
  if (virtualization === 'kvm') parseUserData(userData, os)
  else
    throw new BerthError('invalid', 'unsupported', 'user_data: only available for virtual machines', {
      field: 'user_data',
    })
}

function planDevices({ virtualization, devices = [] }: CreateBody): string[] {
  if (devices.length > 0 && virtualization === 'kvm')
    throw new BerthError('invalid', 'unsupported', 'devices: only available for LXC containers', {
      field: 'devices',
    })
  return parseGuestDevices(devices)
}

type Addresses = Pick<GuestSpec, 'ipv4Count' | 'publicIpv4s' | 'ipv6Count' | 'ipv6Addresses'>

function planAllAddresses(body: CreateBody): Addresses {
  const ipv4 = { assign: body.assign_ipv4, count: body.ipv4_count, list: body.public_ipv4s }
  const ipv6 = { assign: body.assign_ipv6, count: body.ipv6_count, list: body.ipv6_addresses }
  return {
    publicIpv4s: planList('public_ipv4s', 'assign_ipv4', ipv4),
    ipv4Count: planCount(ipv4),
    ipv6Addresses: planList('ipv6_addresses', 'assign_ipv6', ipv6),
    ipv6Count: planCount(ipv6),
  }
}

interface AskedAddresses {
  readonly assign: boolean | undefined
  readonly count: number | undefined
  readonly list: readonly string[] | undefined
}

function planList(field: string, flag: string, { assign, list = [] }: AskedAddresses): string[] {
  if (assign === false && list.length > 0) throw invalidField(field, `${field}: must be empty if ${flag} is false`)
  return planAddresses(field, list)
}

/**
 * Returns the number of addresses to choose. Some clients send 0 instead of omitting the count. Therefore, if `assign`
 * is true and `list` is empty, 0 means one address. If `assign` is false, the count is ignored.
 */
function planCount({ assign, count = 0, list = [] }: AskedAddresses): number {
  if (assign === false) return 0
  return assign === true && list.length === 0 ? Math.max(1, count) : count
}

function planInitialTraffic(body: CreateBody): TrafficLimit {
  const { mode = 'total', ...rest } = planTraffic(body)
  const { action = 'stop', monthlyGb = 0, inGb = 0, outGb = 0 } = rest
  const { throttleMbps = 0, resetDay = 0 } = rest
  return { mode, action, monthlyGb, inGb, outGb, throttleMbps, resetDay }
}
