import { Type, type Static, type TObject } from 'typebox'
import { suspensionModes } from '../../../shared/suspension-rules.js'
import type { TimeFormat } from '../../../shared/time.js'
import type { GuestSuspension } from '../../../proto/gen/berth/agent/v1/guest.js'
import type { GuestView } from '../../fleet/contract.js'
import { oneOf, timeSchema } from '../../http/schema.js'

const policyNames = ['suspended', 'expired', 'traffic', 'security'] as const

/** Fields of a container's row that describe why it is suspended. */
export const suspensionRowFields = {
  policy: Type.Optional(
    oneOf(
      policyNames,
      'Reason why the container is blocked. If there are several, the one that comes first in the list of values. Absent if the container is not blocked.',
    ),
  ),
  suspended_mode: Type.Optional(oneOf(suspensionModes)),
  suspended_reason: Type.Optional(
    Type.String({
      description: 'Internal reason of the suspension. Absent for sub-users and for keys that are bound to containers.',
    }),
  ),
  suspended_message: Type.Optional(Type.String({ description: 'Message about the suspension that sub-users see.' })),
  suspended_at: Type.Optional(timeSchema('the container was suspended')),
  suspended_until: Type.Optional(timeSchema('the suspension ends by itself', 'it does not end by itself')),
}
type SuspensionRow = Static<TObject<typeof suspensionRowFields>>

/** @param shown `customer` omits fields that only the provider may see */
export function suspensionRow(
  { suspension, blocks: [first] }: GuestView['guest'],
  time: TimeFormat,
  shown: 'all' | 'customer',
): SuspensionRow {
  const policy = policyNames.find((name) => name === first)
  if (!suspension) return policy ? { policy } : {}
  return {
    ...(policy && { policy }),
    suspended_mode: modeName(suspension),
    ...(shown === 'all' && { suspended_reason: suspension.reason }),
    suspended_message: suspension.message,
    suspended_at: time.format(suspension.sinceMs),
    suspended_until: time.format(suspension.untilMs),
  }
}

function modeName({ mode }: GuestSuspension): (typeof suspensionModes)[number] {
  return mode === 'network' ? 'network' : 'stop'
}
