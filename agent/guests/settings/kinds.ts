import type { ChangeSettingRequest } from '../../../proto/gen/berth/agent/v1/network.js'
import { BerthError } from '../../../shared/errors.js'
import type { RemovalCheck } from '../deletion/plan-deletion.js'
import type { HostCapacity } from '../resources/capacity.js'
import type { BackupContext, GuestContext, PolicyKeeper } from '../context.js'
import type { GuestRecord } from '../record/record.js'
import { undelete } from './undelete.js'
import type { Target } from './change.js'
import { setBackupSchedule } from './backup-schedule.js'
import { setDevices } from './devices.js'
import { setFirewall } from './firewall.js'
import { assignIpv6 } from './ipv6.js'
import { setLabels } from './labels.js'
import { setLimits } from './limits.js'
import { PolicySettings } from './policy.js'
import { PortMappings } from './port-mappings.js'
import { setSecurity } from './security.js'
import { setSnapshotQuota } from './snapshot-quota.js'
import { setSnapshotSchedule } from './snapshot-schedule.js'
import type { StandbySender } from '../standby/standby-sender.js'
import { setStandby } from './standby.js'

export type WireChange = NonNullable<ChangeSettingRequest['change']>
type ChangeName = WireChange['$case']
type ValueOf<Name extends ChangeName> = Extract<WireChange, { $case: Name }>['value']

/** Stores a change and applies it on the host. Resolves when the change is in force. @returns the changed guest */
export type SettingKind<Name extends ChangeName> = (target: Target, value: ValueOf<Name>) => Promise<GuestRecord>

/** For each change in `ChangeSettingRequest.change`: the function that makes this change. */
export type SettingKinds = { readonly [Name in ChangeName]: SettingKind<Name> }

export interface SettingParts extends RemovalCheck {
  readonly context: GuestContext & Pick<BackupContext, 'targets'>
  readonly policy: PolicyKeeper
  readonly capacity: HostCapacity
  readonly standbys: Pick<StandbySender, 'discard'>
}

export function settingKinds({ context, policy, capacity, standbys, isBeingRemoved }: SettingParts): SettingKinds {
  const mappings = new PortMappings(context)
  const policies = new PolicySettings(context, policy)
  return {
    addPortMapping: (target, wanted) => mappings.add(target, wanted),
    updatePortMapping: (target, { index, change }) => {
      if (!change) throw new BerthError('invalid', 'missing_field', 'change: is required', { field: 'change' })
      return mappings.update(target, index, change)
    },
    removePortMapping: (target, index) => mappings.remove(target, index),
    firewall: (target, wanted) => setFirewall(context, target, wanted),
    limits: (target, wanted) => setLimits(context, target, { wanted, capacity }),
    trafficLimit: (target, wanted) => policies.setTrafficLimit(target, wanted),
    resetTraffic: (target) => policies.resetTraffic(target),
    expiresAtMs: (target, time) => policies.setExpiry(target, time),
    suspend: (target, order) => policies.suspend(target, order),
    unsuspend: (target) => policies.unsuspend(target),
    assignIpv6: (target, order) => assignIpv6(context, target, order),
    snapshotLimit: (target, limit) => setSnapshotQuota({ context, capacity }, target, { limit }),
    snapshotQuota: (target, wanted) => setSnapshotQuota({ context, capacity }, target, wanted),
    backupSchedule: (target, wanted) => setBackupSchedule(context, target, wanted),
    snapshotSchedule: (target, wanted) => setSnapshotSchedule(context, target, wanted),
    security: (target, wanted) => setSecurity(context, target, wanted),
    undelete: (target) => undelete({ ...context, isBeingRemoved }, target),
    labels: (target, wanted) => setLabels({ ...context, isBeingRemoved }, target, wanted),
    standby: (target, wanted) => setStandby({ ...context, standbys }, target, wanted),
    devices: (target, wanted) => setDevices(context, target, wanted),
  }
}
