import type { StandbyChange } from '../../../proto/gen/berth/agent/v1/network.js'
import { BerthError, invalidField } from '../../../shared/errors.js'
import { checkInteger } from '../../../shared/field-checks.js'
import { hostIdPattern } from '../../../shared/identity.js'
import { standbyLimits } from '../../../shared/standby-rules.js'
import { parseUuid } from '../create/parse-create.js'
import type { GuestRecord, GuestStandby } from '../record/record.js'

const hostId = new RegExp(hostIdPattern)
const maxErrorChars = 500

/**
 * Returns the guest's standby after a change; null: it has none. Another id begins again without a copy.
 * @throws {BerthError} `invalid_field`, and `unsupported` for a virtual machine
 */
export function planStandby(
  { spec, standby: before }: Pick<GuestRecord, 'spec' | 'standby'>,
  wanted: StandbyChange,
): GuestStandby | null {
  if (wanted.hostId === '') return null
  if (spec.virtualization !== 'lxc')
    throw new BerthError('invalid', 'unsupported', 'only LXC containers can have a warm standby')
  if (!hostId.test(wanted.hostId)) throw invalidField('host_id', 'host_id: must be the id of a host')
  const standbyId = parseUuid('standby_id', wanted.standbyId)
  const settings = {
    standbyId,
    hostId: wanted.hostId,
    intervalMinutes: checkInteger('interval_minutes', wanted.intervalMinutes, standbyLimits.intervalMinutes),
    bandwidthMbps: checkInteger('bandwidth_mbps', wanted.bandwidthMbps, standbyLimits.bandwidthMbps),
  }
  const isSame = before?.standbyId === standbyId && before.hostId === wanted.hostId
  return { ...(isSame ? before : noIncrements), ...settings }
}

const noIncrements = { takenAtMs: 0, takenBytes: 0, sentBytes: 0, triedAtMs: 0, failures: 0, error: '' }

/** Result of an attempt: a complete increment, or the message of an error. */
export type StandbyResult =
  { readonly takenAtMs: number; readonly takenBytes: number; readonly sentBytes: number } | { readonly error: string }

export function planResult(standby: GuestStandby, result: StandbyResult, triedAtMs: number): GuestStandby {
  if ('error' in result)
    return { ...standby, triedAtMs, failures: standby.failures + 1, error: result.error.slice(0, maxErrorChars) }
  return { ...standby, ...result, triedAtMs, failures: 0, error: '' }
}
