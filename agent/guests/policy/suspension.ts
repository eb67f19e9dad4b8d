import { invalidField } from '../../../shared/errors.js'
import { oneOf } from '../../../shared/field-checks.js'
import { checkSuspensionText, suspensionModes } from '../../../shared/suspension-rules.js'
import { isAllowedToRun } from './policy.js'
import type { GuestRecord, GuestSuspension } from '../record/record.js'
import { parseTime } from '../parse-settings.js'
import type { GuestUpdate } from '../record/rows.js'

/* This file contains the rules for suspensions by administrators, without I/O (docs/design/suspension.md). */

export interface SuspensionOrder {
  readonly reason: string
  readonly message: string
  readonly mode: string
  readonly untilMs: number
}

type Suspendable = Pick<GuestRecord, 'suspension' | 'wanted' | 'policy' | 'traffic'>

/** Checks a request to suspend a guest. @throws {BerthError} `invalid_field` */
export function parseSuspension(
  { reason, message, mode, untilMs }: SuspensionOrder,
  nowMs: number,
): Omit<GuestSuspension, 'sinceMs' | 'resumes'> {
  if (reason.trim() === '') throw invalidField('reason', 'reason: must not be empty')
  if (untilMs !== 0 && untilMs <= nowMs) throw invalidField('until', 'until: must be in the future')
  return {
    reason: checkSuspensionText('reason', reason),
    message: checkSuspensionText('message', message),
    mode: oneOf('mode', mode, suspensionModes),
    untilMs: parseTime('until', untilMs),
  }
}

/**
 * Plans a suspension, or changes one. If the suspension has stopped the guest and the new mode is `network`, the guest
 * runs again.
 */
export function planSuspend(
  record: Suspendable,
  wanted: Omit<GuestSuspension, 'sinceMs' | 'resumes'>,
  nowMs: number,
): GuestUpdate {
  const { suspension: old } = record
  const ran = old?.mode === 'stop' ? old.resumes : record.wanted === 'running'
  const suspension = { ...wanted, sinceMs: old?.sinceMs ?? nowMs, resumes: ran && wanted.mode === 'stop' }
  return { suspension, ...planResume({ ...record, suspension }, ran && old?.mode === 'stop') }
}

/** Ends a suspension. A guest that ran before the suspension runs again, unless it is suspended for another reason. */
export function planUnsuspend(record: Suspendable): GuestUpdate {
  const suspension = null
  return { suspension, ...planResume({ ...record, suspension }, record.suspension?.resumes ?? false) }
}

/** If the guest ran before its suspension and can run now, plans `wanted: running`. The reconciler then starts it. */
function planResume(record: Suspendable, ran: boolean): GuestUpdate {
  return ran && isAllowedToRun(record) ? { wanted: 'running' } : {}
}
